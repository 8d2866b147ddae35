"""``enable(budget=...)``: Keras trains with the same bits, and the report says what was planned."""

import os

# With oneDNN, TensorFlow for CPUs fuses once more after its optimizers, and not what waits for somebody
# (docs/tensorflow.md); edges hold the executor to its order at every budget. A CPU only plays the accelerator here.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras  # noqa: E402 (TensorFlow reads the environment when it is imported)
import pytest  # noqa: E402
from same_training import train_both, with_ebb  # noqa: E402

import ebb  # noqa: E402

BUDGETS = {
    "mlp": ["100%"],
    "swish": ["100%"],
    "unet3d": ["100%", "70%"],
    "transformer": ["75%", "50%"],
    "smaller_last_batch": ["75%"],
    "conditional": ["90%"],
    "steps_per_execution": ["95%"],
}


@pytest.mark.parametrize(("name", "budget"), [(name, budget) for name in BUDGETS for budget in BUDGETS[name]])
def test_the_same_bits_within_a_budget(name, budget):
    graphs = train_both(keras, name, budget=budget, batch_size=8)
    for graph in graphs:
        assert graph.peak_bytes <= graph.budget_bytes
        assert "predicted: " in str(graph)
        moved = graph.tensors_swapped + graph.tensors_recomputed
        assert moved > 0 or budget == "100%"


def test_of_what_does_not_fit_it_is_said_what_would():
    _, graphs = with_ebb(keras, "mlp", budget="1KiB", batch_size=8)
    assert graphs
    assert all("the least budget found is" in graph.problem for graph in graphs)


def test_a_profile_that_is_not_there_is_refused_before_anything_trains(tmp_path):
    with pytest.raises(ebb.Error, match="profile: cannot read .*missing.json"):
        with_ebb(keras, "mlp", budget="100%", batch_size=8, profile=tmp_path / "missing.json")


def test_sizes_that_do_not_follow_from_the_batch_are_named():
    _, graphs = with_ebb(keras, "lstm", budget="95%", batch_size=8)
    assert graphs
    assert all("is not known" in graph.problem for graph in graphs)
