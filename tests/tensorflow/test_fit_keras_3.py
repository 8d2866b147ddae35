"""Models of Keras 3 train with the same bits while Ebb swaps their tensors."""

import keras
import pytest
from models import CASES
from same_training import swapped, train_both


@pytest.mark.parametrize("name", CASES)
def test_the_same_losses_and_weights(name):
    graphs = train_both(keras, name)
    assert swapped(graphs) > 0
