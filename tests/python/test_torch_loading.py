"""ebb.torch finds the right torch, or says what to do."""

import os
import pathlib

import pytest

torch = pytest.importorskip("torch")
if not list(pathlib.Path(os.environ["EBB_BUILD"], "python", "ebb", "torch").glob("_runtime*.so")):
    pytest.skip("built without PyTorch", allow_module_level=True)

from ebb.torch import _load  # noqa: E402 (after the reasons to skip)


def test_the_runtime_was_built_with_the_torch_that_it_runs_with():
    built, running = _load._runtime.torch_versions()
    assert running == torch.__version__.partition("+")[0]
    assert built.split(".")[:2] == running.split(".")[:2] == _load.BUILT_FOR.split(".")


@pytest.mark.parametrize("version", ["2.10.0", "2.110.0", "2.1", "3.11.0"])
def test_another_version_of_torch_is_refused_with_the_remedy(version):
    remedy = r"pip install 'torch==2\.11\.\*'"
    with pytest.raises(ImportError, match=f"found torch {version}: {remedy}"):
        _load.check_torch(version)
