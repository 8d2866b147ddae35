"""The wheel: built against this environment's frameworks, installed beside them, called."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = pathlib.Path(sysconfig.get_path("platlib"))  # has torch and TensorFlow
CLEARED = ("PYTHONPATH", "LD_LIBRARY_PATH")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in CLEARED}


def run(*command, **more):
    command = [str(part) for part in command]
    environment = ENVIRONMENT | more
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    # Beside the other builds: what these have compiled with the same flags and paths, the compiler cache has.
    build = ROOT / "build" / "wheel"
    shutil.rmtree(build, ignore_errors=True)
    settings = [f"build-dir={build}", "cmake.define.EBB_WERROR=ON"]
    options = ["--no-build-isolation", "--no-deps", *(f"--config-settings={setting}" for setting in settings)]
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, ROOT)
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """An environment that has the wheel, and everything else from ours: (python, site-packages)."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('platlib'))"
    site = pathlib.Path(run(python, "-c", ask).strip())
    pip = [sys.executable, "-m", "pip", "--python", python]
    run(*pip, "install", "--no-deps", "--no-index", wheel)
    (site / "ours.pth").write_text(f"{OURS}\n", encoding="utf-8")
    return python, site


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"ebb", "ebb_lms"}
    assert {"ebb/__init__.py", "ebb/_core.pyi", "ebb/py.typed"} <= set(names)
    modules = {name.split(".")[0] for name in names if name.endswith(".so")}
    assert modules == {"ebb/_core", "ebb/tensorflow/libebb_grappler", "ebb/torch/_runtime"}
    assert "ebb-lms.pth" in names  # read when Python starts, where site-packages is its folder


def test_the_wheel_is_tagged_for_the_stable_abi_where_there_is_one(wheel):
    tag = wheel.stem.split("-")[2:4]
    if sys.version_info >= (3, 12):
        assert tag == ["cp312", "abi3"]
    else:
        assert tag == [f"cp3{sys.version_info.minor}"] * 2


def test_frameworks_are_extras_and_not_dependencies(wheel):
    archive = zipfile.ZipFile(wheel)
    [metadata] = [name for name in archive.namelist() if name.endswith("/METADATA")]
    lines = archive.read(metadata).decode().splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist:")]
    assert sorted(required) == [
        'Requires-Dist: safetensors; extra == "torch"',
        'Requires-Dist: tensorflow>=2.16; extra == "tensorflow"',
        'Requires-Dist: torch==2.11.*; extra == "torch"',
    ]


def test_what_was_installed_is_imported_and_called(environment):
    python, site = environment
    code = textwrap.dedent(
        """
        import importlib.metadata, ebb
        graph = ebb.parse("graph g {\\n  input %x: f32[8]\\n  return %x\\n}\\n")
        print(ebb.__file__, graph.node_count)
        print(ebb.__version__, importlib.metadata.version("ebb-lms"))
        """
    )
    file, nodes, version, installed = run(python, "-c", code).split()
    assert pathlib.Path(file).parent == site / "ebb"
    assert version == installed
    assert nodes == "1"


def test_the_runtime_uses_the_libtorch_of_the_torch_that_is_imported(environment):
    python, _ = environment
    code = textwrap.dedent(
        """
        from ebb.torch import _runtime
        maps = open("/proc/self/maps")
        loaded = {line.split()[-1] for line in maps if "/libtorch_cpu.so" in line}
        print(*_runtime.torch_versions(), *loaded)
        """
    )
    built, running, library = run(python, "-c", code).split()
    assert built == running
    assert pathlib.Path(library) == (OURS / "torch" / "lib" / "libtorch_cpu.so").resolve()


def test_without_torch_loaded_libtorch_is_found_where_pip_puts_it(environment):
    python, site = environment
    beside = site / "torch"
    beside.symlink_to(OURS / "torch")
    try:
        [module] = (site / "ebb" / "torch").glob("_runtime*.so")
        run(python, "-S", "-c", f"import ctypes; ctypes.CDLL({str(module)!r})")
    finally:
        beside.unlink()


def test_by_environment_alone_a_program_that_imports_tensorflow_has_ebb(environment):
    python, site = environment
    code = "import tensorflow, sys; print(sys.modules.get('ebb.tensorflow'))"
    assert run(python, "-c", code).strip() == "None"
    loaded = run(python, "-c", code, EBB_N_TENSORS="3").strip()
    assert str(site / "ebb" / "tensorflow") in loaded
    asked = "import tensorflow, ebb; print(ebb.tensorflow.last_report().parameters['n_tensors'])"
    assert run(python, "-c", asked, EBB_N_TENSORS="3").strip() == "3"
