import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without which cuBLAS promises no bits
os.environ["EBB_CACHE"] = "off"  # not the user's; tests of the cache have one of their own

import pytest  # noqa: E402
import torch  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "cuda: needs a GPU; skipped where there is none (scripts/device)")


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skip(reason="there is no GPU"))


@pytest.fixture(autouse=True)
def deterministic():
    """Bits are compared: PyTorch must not choose kernels by the weather."""
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    yield
    torch.use_deterministic_algorithms(False)
