"""The package as a whole: where it comes from, its version, its type stubs."""

import os
import pathlib
import re

import ebb
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["EBB_BUILD"])
STUBS = sorted(path.relative_to(BUILD / "stubs") for path in (BUILD / "stubs").rglob("*.pyi"))


def test_what_is_tested_is_this_build():
    assert pathlib.Path(ebb.__file__) == BUILD / "python" / "ebb" / "__init__.py"
    assert pathlib.Path(ebb._core.__file__).parent == BUILD / "python" / "ebb"


def test_the_version_is_the_project_s():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    assert ebb.__version__ == re.search(r"project\(ebb\s+VERSION ([0-9.]+)", text)[1]


def test_what_a_wheel_is_built_with_is_what_is_tested_here():
    tested = (ROOT / "scripts" / "requirements.txt").read_text(encoding="utf-8").split()
    files = [ROOT / "pyproject.toml", ROOT / "python" / "backend" / "ebb_backend.py"]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    wanted = re.findall(r'"([\w-]+==[\d.]+)"', text)
    names = {requirement.partition("==")[0] for requirement in wanted}
    assert names == {"scikit-build-core", "nanobind", "nvidia-cuda-crt", "torch"}
    assert set(wanted) <= set(tested)


@pytest.mark.parametrize("stub", STUBS, ids=str)
def test_the_type_stub_checked_in_is_what_stubgen_makes(stub):
    made = (BUILD / "stubs" / stub).read_text(encoding="utf-8")
    assert (ROOT / "python" / stub).read_text(encoding="utf-8") == made, (
        f"if the new one is right: cmake --build {BUILD} --target ebb_update_stubs"
    )


def test_every_extension_module_has_a_type_stub():
    tree = BUILD / "python"
    libraries = tree.rglob("lib*.so")  # are loaded by others than Python
    files = [path.relative_to(tree) for path in set(tree.rglob("*.so")) - set(libraries)]
    modules = {file.parent / file.name.split(".")[0] for file in files}
    assert modules == {stub.with_suffix("") for stub in STUBS}
    assert pathlib.Path("ebb/_core") in modules
