"""README's lines for users of Keras, and the example, do what they say."""

import contextlib
import io
import pathlib
import re
import subprocess
import sys

import keras
import models
from same_training import DEVICES

import ebb.tensorflow

README = pathlib.Path(__file__).parents[2] / "README.md"


def lines() -> str:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if "ebb.tensorflow.enable()" in block]
    return found


def trained(text: str) -> tuple[list[bytes], str]:
    """The weights after the lines, with a model that is compiled as Keras does it by default, and what they print."""
    case = models.CASES["mlp"]
    x, y = case.data()
    keras.utils.set_random_seed(0)
    model = models.compiled(keras, case, jit_compile="auto")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(text, {"model": model, "x": x, "y": y})
    finally:
        ebb.tensorflow.disable()
    return [weight.numpy().tobytes() for weight in model.weights], printed.getvalue()


def without_ebb(text: str) -> list[bytes]:
    kept = [line for line in text.splitlines() if "ebb" not in line]
    return trained("model.jit_compile = False\n" + "\n".join(kept))[0]


def test_as_written_they_train_as_without_ebb_and_say_what_happened():
    weights, printed = trained(lines())
    assert weights == without_ebb(lines())
    assert "Ebb is on" in printed
    assert "'/device:GPU:*'" in printed  # this machine's CPU is no accelerator, unless one says so


def test_with_an_accelerator_they_swap():
    devices = ", ".join(f"{name}={device!r}" for name, device in DEVICES.items())
    weights, printed = trained(lines().replace("enable()", f"enable({devices})"))
    assert weights == without_ebb(lines())
    assert re.search(r"[1-9]\d* tensors swapped", printed)


def test_the_example_trains_with_the_same_bits():
    example = README.parent / "examples" / "tensorflow" / "train_keras.py"
    options = ["--batch", "2", "--size", "32", "--steps", "2", "--sync", "2"]
    done = subprocess.run([sys.executable, example, *options], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert re.search(r"[1-9]\d* tensors swapped", done.stdout)
    assert done.stdout.count("the same bits") == 2
