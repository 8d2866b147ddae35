"""The build backend: when a wheel's build has to bring its own torch."""

import pathlib
import sys

import pytest

pytest.importorskip("scikit_build_core")
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def requirement(tmp_path, monkeypatch):
    """What the build requires of torch, given the version that the environment has (or None)."""
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT / "python" / "backend")
    import ebb_backend

    def ask(version, settings=None):
        if version is not None:
            (tmp_path / "torch").mkdir()
            (tmp_path / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
        monkeypatch.setattr(ebb_backend.sysconfig, "get_path", lambda name: str(tmp_path))
        requires = ebb_backend.get_requires_for_build_wheel(settings)
        return [line for line in requires if line.startswith("torch")]

    yield ask
    sys.modules.pop("ebb_backend", None)


@pytest.mark.parametrize("version", ["2.11.0", "2.11.0+cpu", "2.11.1+cu130"])
def test_a_torch_that_is_there_is_built_against_whatever_its_flavour(requirement, version):
    assert requirement(version) == []


@pytest.mark.parametrize("version", [None, "2.10.0", "2.110.0"])
def test_without_the_right_torch_the_build_brings_one(requirement, version):
    assert requirement(version) == ["torch==2.11.0"]


@pytest.mark.parametrize("prefix", ["", "skbuild."])
def test_a_build_without_pytorch_brings_none(requirement, prefix):
    assert requirement(None, {f"{prefix}cmake.define.EBB_BUILD_TORCH": "OFF"}) == []


def test_a_torch_named_by_the_user_is_enough(requirement):
    assert requirement(None, {"cmake.define.EBB_TORCH_DIR": "/elsewhere/torch"}) == []
