import pytest
import torch


@pytest.fixture(autouse=True)
def deterministic():
    """Bits are compared: PyTorch must not choose kernels by the weather."""
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    yield
    torch.use_deterministic_algorithms(False)
