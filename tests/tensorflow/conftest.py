import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest  # noqa: E402 (TensorFlow reads the environment when it is imported)
import tensorflow as tf  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def deterministic():
    """Bits are compared: TensorFlow must not choose by the weather."""
    tf.config.experimental.enable_op_determinism()
