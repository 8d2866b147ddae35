import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(autouse=True, scope="session")
def deterministic():
    """Bits are compared: TensorFlow must not choose by the weather."""
    import tensorflow as tf  # not above: it reads the environment then, and tests have something to put there

    tf.config.experimental.enable_op_determinism()
