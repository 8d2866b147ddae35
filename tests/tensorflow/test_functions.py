"""Training steps that are functions in a library: rewritten there, proved, and run by TensorFlow."""

import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

TOOL = os.environ.get("TOOL")
pytestmark = pytest.mark.skipif(TOOL is None, reason="this build has no ebb")


class Trainer(tf.Module):
    """A model whose training step is a function of its own."""

    def __init__(self):
        super().__init__()
        generator = np.random.default_rng(0)
        sizes = [32, 64, 64, 10]
        self.weights = [
            tf.Variable(generator.normal(0, 0.1, (n, m)).astype("float32"))
            for n, m in zip(sizes, sizes[1:], strict=False)
        ]

    @tf.function(input_signature=[tf.TensorSpec([16, 32]), tf.TensorSpec([16], tf.int32)])
    def train(self, x, y):
        with tf.GradientTape() as tape:
            for weight in self.weights:
                x = tf.nn.tanh(x @ weight)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
            loss = tf.reduce_mean(losses)
        for weight, gradient in zip(
            self.weights, tape.gradient(loss, self.weights), strict=True
        ):
            weight.assign_sub(0.5 * gradient)
        return {"loss": loss}


def ebb(*arguments):
    return subprocess.run(
        [TOOL, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600
    )


def losses(folder):
    model = tf.saved_model.load(folder)
    generator = np.random.default_rng(1)
    x = generator.normal(size=(16, 32)).astype("float32")
    y = generator.integers(0, 10, 16).astype("int32")
    step = model.signatures["train"]
    found = [step(x=x, y=y)["loss"].numpy().tobytes() for _ in range(5)]
    return found, [w.numpy().tobytes() for w in model.weights]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("functions") / "plain"
    trainer = Trainer()
    tf.saved_model.save(trainer, str(folder), signatures={"train": trainer.train})
    return folder


def test_a_saved_models_training_function_is_rewritten_proved_and_trains_the_same(saved):
    rewritten = saved.parent / "rewritten"
    shutil.copytree(saved, rewritten)
    plain = saved / "saved_model.pb"
    target = rewritten / "saved_model.pb"
    done = ebb("rewrite", plain, "-o", target, "--json")
    assert done.returncode == 0, done.stderr
    functions = {f["name"]: f for f in json.loads(done.stdout)["functions"]}
    trained = [name for name, f in functions.items() if f["tensors_swapped"] > 0]
    assert trained and all("train" in name for name in trained)
    assert "tensors swapped" in done.stderr
    proved = ebb("verify", plain, target)
    assert proved.returncode == 0, proved.stderr
    names = [
        node.name
        for function in saved_graph(target).library.function
        for node in function.node_def
        if "_ebb" in node.attr
    ]
    assert any(name.endswith(".host") for name in names)
    assert losses(str(rewritten)) == losses(str(saved))


def saved_graph(path):
    from tensorflow.core.protobuf import saved_model_pb2

    message = saved_model_pb2.SavedModel.FromString(pathlib.Path(path).read_bytes())
    return message.meta_graphs[0].graph_def


def test_functions_without_a_backward_phase_are_left_alone_with_the_reason(saved):
    done = ebb("rewrite", saved / "saved_model.pb", "-o", saved.parent / "out.pb", "--json")
    reasons = {f["left_alone"] for f in json.loads(done.stdout)["functions"]}
    assert "it has no backward phase of its own" in reasons


def test_a_budget_is_not_planned_for_a_graph_whose_step_is_a_function(saved):
    target = saved.parent / "budget.pb"
    done = ebb("rewrite", saved / "saved_model.pb", "-o", target, "--budget", "50%")
    assert done.returncode == 3
    assert "the training step is the function '" in done.stderr and "enable(budget=...)" in done.stderr
    assert not target.exists()


def test_a_function_that_was_damaged_is_not_proved(saved):
    target = saved.parent / "rewritten.pb"
    assert ebb("rewrite", saved / "saved_model.pb", "-o", target).returncode == 0
    from tensorflow.core.protobuf import saved_model_pb2

    message = saved_model_pb2.SavedModel.FromString(target.read_bytes())
    for function in message.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            if node.op == "Tanh":
                node.op = "Sigmoid"
    target.write_bytes(message.SerializeToString())
    done = ebb("verify", saved / "saved_model.pb", target)
    assert done.returncode == 5, (done.returncode, done.stderr)
    assert "the function '" in done.stderr
