"""Models of tf_keras (Keras 2) train with the same bits while Ebb swaps their tensors."""

import tf_keras
import pytest
from models import CASES
from same_training import swapped, train_both


@pytest.mark.parametrize("name", CASES)
def test_the_same_losses_and_weights(name):
    graphs = train_both(tf_keras, name)
    assert swapped(graphs) > 0
