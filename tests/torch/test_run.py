"""`ebb run`: a saved step in a process without Python computes what eager PyTorch does."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from same_bits import bits
from small_models import Transformer, convolutional, images, sentences, word_loss

import ebb.torch
from ebb.torch._step_function import step_function

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("EBB_TOOL", "nowhere"))
if not TOOL.with_name("ebb-run").exists():
    pytest.skip("built without the command line tool", allow_module_level=True)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


def ebb_run(*args, stdin=""):
    return subprocess.run(
        [TOOL, "run", *map(str, args)],
        input=stdin, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=False,
    )  # fmt: skip


def run_well(*args, **options):
    done = ebb_run(*args, **options)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def losses_of(*args):
    report = json.loads(run_well(*args, "--json"))
    return [step["outputs"][0] for step in report["steps"]]


def metadata_of(path):
    with safe_open(path, "pt") as file:
        return file.metadata()


class Training:
    """A model in training, saved as a step before its first."""

    def __init__(self, folder, model, loss_fn, optimizer, batch):
        self.model, self.optimizer, self.batch = model, optimizer, batch
        self.train = step_function(model, loss_fn, optimizer)
        self.captured = ebb.torch.capture(model, loss_fn, optimizer, batch)
        self.path = folder / "step.ebb"
        torch.manual_seed(7)
        self.captured.save(self.path)
        self.start = torch.get_rng_state()

    def eager_losses(self, steps):
        torch.set_rng_state(self.start)
        return [self.train(*self.batch).item() for _ in range(steps)]

    def state(self):
        """Parameters, buffers and optimizer state as they are now, by the graph's names."""
        state = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                if isinstance(value, torch.Tensor):
                    state[f"{name}.{key}"] = value
        return state


def cnn(folder):
    torch.manual_seed(0)
    model = convolutional()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4
    )
    return Training(folder, model, F.cross_entropy, optimizer, images(4, 12))


def transformer(folder):
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return Training(folder, model, word_loss, optimizer, sentences(3, 16, 100))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved convolutional network, for tests that do not train it eagerly."""
    return cnn(tmp_path_factory.mktemp("saved"))


SMALL = """graph g {
  input %x: f32[2]
  param %w: f32[2]
  scalar $lr: f64
  %y: f32[2] = aten::mul.Tensor(%x, %w)
  %s: f32[] = aten::sum(%y)
  $half: f64 = scalar::mul(0.5, $lr)
  %w.1: f32[2] ~ %w = aten::add_.Tensor(%w!, %x) {alpha = $half}
  return %s, %y
}
"""


@pytest.fixture
def small(tmp_path):
    """A step written by hand, x = [1, 2], w = [3, 4], lr = 1: returns 11 first."""
    (tmp_path / "small.ebb").write_text(SMALL, encoding="utf-8")
    write_small_state(tmp_path / "small.safetensors")
    return tmp_path / "small.ebb"


def write_small_state(path, metadata=None, **tensors):
    content = {"x": torch.tensor([1.0, 2.0]), "w": torch.tensor([3.0, 4.0]), **tensors}
    content = {name: tensor for name, tensor in content.items() if tensor is not None}
    if metadata is None:
        metadata = {"format": "ebb-step-1", "scalar.lr": (1.0).hex()}
    save_file(content, path, metadata)


# The same numbers.


@pytest.mark.parametrize("make", [cnn, transformer])
def test_losses_and_final_state_are_those_of_eager_pytorch_to_the_bit(make, tmp_path):
    training = make(tmp_path)
    after = tmp_path / "after.safetensors"
    losses = losses_of(training.path, "--steps", 5, "-o", after)
    assert losses == training.eager_losses(5)
    assert len(set(losses)) == 5
    ours, theirs = load_file(after), training.state()
    assert set(training.captured.state) - set(ours) == set(theirs) - set(ours)  # tied weights
    wrong = [name for name in ours if name in theirs and bits(ours[name]) != bits(theirs[name])]
    assert wrong == []
    assert bits(ours["ebb.generator"]) == bits(torch.get_rng_state())


@pytest.mark.parametrize("make", [cnn, transformer])
def test_a_run_in_two_parts_ends_where_one_run_does(make, tmp_path):
    training = make(tmp_path)
    whole, half, rest = (tmp_path / f"{name}.safetensors" for name in ("whole", "half", "rest"))
    losses = losses_of(training.path, "--steps", 5, "-o", whole)
    assert losses_of(training.path, "--steps", 2, "-o", half) == losses[:2]
    assert losses_of(training.path, "--state", half, "--steps", 3, "-o", rest) == losses[2:]
    assert rest.read_bytes() == whole.read_bytes()


def test_the_state_may_be_written_over_the_one_it_began_with(small):
    state = small.with_suffix(".safetensors")
    for expected in (11.0, 13.5, 16.0):
        assert losses_of(small, "--state", state, "-o", state) == [expected]
    assert sorted(path.name for path in small.parent.iterdir()) == ["small.ebb", "small.safetensors"]


def test_what_counts_in_the_first_step_only_is_not_written_again(saved, tmp_path):
    state = tmp_path / "step.safetensors"
    source = saved.path.with_suffix(".safetensors")
    first = metadata_of(source) | {"first.lr": (0.5).hex()}
    save_file(load_file(source), state, first)
    run_well(saved.path, "--state", state, "-o", tmp_path / "after.safetensors")
    metadata = metadata_of(tmp_path / "after.safetensors")
    assert metadata["format"] == "ebb-step-1"
    assert metadata.get("deterministic") == first.get("deterministic")
    values = {
        name: float.fromhex(value)
        for name, value in metadata.items()
        if name.startswith(("scalar.", "first."))
    }
    assert values == {
        f"scalar.{name}": value for name, value in saved.captured.scalar_values().items()
    }


def test_another_learning_rate_counts_from_the_first_step_on(tmp_path):
    training = cnn(tmp_path)
    training.optimizer.param_groups[0]["lr"] = 0.025
    losses = losses_of(training.path, "--steps", 3, "--scalar", "lr=0.025")
    assert losses == training.eager_losses(3)


def test_scalars_of_the_command_line_beat_those_of_the_file_and_are_written(small, tmp_path):
    after = tmp_path / "after.safetensors"
    assert losses_of(small, "--steps", 2, "--scalar", "lr=2", "-o", after) == [11.0, 16.0]
    assert losses_of(small, "--state", after) == [21.0]
    assert losses_of(small, "--steps", 2, "--scalar", "lr=0x1p1") == [11.0, 16.0]


def random_step(folder):
    graph = """graph g {
  input %x: f32[100]
  %r: f32[100] = aten::rand_like(%x) random
  %s: f32[] = aten::sum(%r)
  return %s
}
"""
    (folder / "random.ebb").write_text(graph, encoding="utf-8")
    save_file({"x": torch.zeros(100)}, folder / "random.safetensors")
    return folder / "random.ebb"


@pytest.mark.parametrize("seed", [0, 42, -3, 2**64 - 1])
def test_a_seed_is_that_of_manual_seed(tmp_path, seed):
    torch.manual_seed(seed)
    expected = [torch.rand(100).sum().item() for _ in range(2)]
    assert losses_of(random_step(tmp_path), "--steps", 2, "--seed", seed) == expected


def test_without_seed_and_generator_the_numbers_are_those_of_a_new_generator(tmp_path):
    expected = torch.rand(100, generator=torch.Generator()).sum().item()
    assert losses_of(random_step(tmp_path)) == [expected]


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_as_many_threads_give_the_same_sum(tmp_path, threads):
    graph = """graph g {
  input %x: f32[1000000]
  %s: f32[] = aten::sum(%x)
  return %s
}
"""
    x = torch.randn(1_000_000)
    (tmp_path / "sum.ebb").write_text(graph, encoding="utf-8")
    save_file({"x": x}, tmp_path / "sum.safetensors")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads or before)
        expected = x.sum().item()
    finally:
        torch.set_num_threads(before)
    arguments = [] if threads is None else ["--threads", threads]
    assert losses_of(tmp_path / "sum.ebb", *arguments) == [expected]


def test_python_is_not_in_the_process():
    needed = {
        name: subprocess.run(
            ["ldd", TOOL.with_name(name)], env=ENVIRONMENT, capture_output=True, text=True, check=True
        ).stdout
        for name in ("ebb", "ebb-run")
    }
    assert "libtorch_cpu.so => /" in needed["ebb-run"]
    assert "not found" not in needed["ebb-run"]
    assert "python" not in re.sub(r"=>.*", "", needed["ebb-run"])
    assert "torch" not in needed["ebb"]  # which starts in no time


# Every type, every layout.


def test_tensors_of_every_type_and_layout_go_through_unchanged(tmp_path):
    tensors = {
        "f64": torch.randn(3, 2, dtype=torch.float64),
        "f32": torch.tensor([-0.0, float("nan"), float("inf")]),
        "f16": torch.randn(5).half(),
        "bf16": torch.randn(5).bfloat16(),
        "f8": torch.randn(3).to(torch.float8_e4m3fn),
        "f8e5": torch.randn(3).to(torch.float8_e5m2),
        "c64": torch.randn(2, dtype=torch.complex64),
        "i64": torch.tensor(-(2**63)),
        "u64": torch.tensor([2**63], dtype=torch.uint64),
        "u32": torch.tensor([2**32 - 1], dtype=torch.uint32),
        "u16": torch.tensor([2**16 - 1], dtype=torch.uint16),
        "i32": torch.arange(3, dtype=torch.int32),
        "i16": torch.arange(3, dtype=torch.int16),
        "i8": torch.arange(3, dtype=torch.int8),
        "u8": torch.arange(3, dtype=torch.uint8),
        "bool": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        'odd "name"\n größe': torch.ones(1),
    }
    texts = {"f8": "f8e4m3", "f8e5": "f8e5m2", "empty": "f32", 'odd "name"\n größe': "f32"}
    lines = []
    for name, tensor in tensors.items():
        spelled = name if name.isalnum() else json.dumps(name, ensure_ascii=False)
        size = ",".join(map(str, tensor.shape))
        lines.append(f"  param %{spelled}: {texts.get(name, name)}[{size}]")
    lines.append("  param %turned: f32[2,3] strides [1,2]")
    lines.append("  param %tied: f32[2] ~ %turned + 8B")
    text = "\n".join(["graph g {", *lines, "  %s: f32[] = aten::sum(%turned)", "  return %s", "}", ""])
    (tmp_path / "types.ebb").write_text(text, encoding="utf-8")
    tensors["turned"] = torch.arange(6, dtype=torch.float32)  # one row, as it lies in memory
    save_file(tensors, tmp_path / "types.safetensors")
    assert losses_of(tmp_path / "types.ebb", "-o", tmp_path / "after.safetensors") == [15.0]
    after = load_file(tmp_path / "after.safetensors")
    del after["ebb.generator"]
    assert list(sorted(after)) == sorted(tensors)
    for name, tensor in tensors.items():
        assert (after[name].dtype, after[name].shape) == (tensor.dtype, tensor.shape)
        assert bits(after[name]) == bits(tensor), name


# What is printed.


def test_a_line_of_memory_and_a_line_a_step(small):
    head, first, second = run_well(small, "--steps", 2).splitlines()
    assert re.fullmatch(r"arena [\d.]+ K?i?B, of it state [\d.]+ B; bound [\d.]+ K?i?B", head)
    assert re.fullmatch(r"step 1: %s = 11\.0, [\d.]+ [mµu]?s", first)
    assert re.fullmatch(r"step 2: %s = 13\.5, [\d.]+ [mµu]?s", second)


def test_numbers_are_the_shortest_that_read_back_the_same(saved):
    lines = run_well(saved.path, "--steps", 3).splitlines()[1:]
    texts = [re.fullmatch(r"step \d: %\S+ = (\S+), .*", line)[1] for line in lines]
    exact = losses_of(saved.path, "--steps", 3)
    assert [torch.tensor(float(text)).item() for text in texts] == exact
    for text in texts:
        assert len(text) <= len("0.123456789")
        shorter = text[:-1]
        assert torch.tensor(float(shorter)).item() != torch.tensor(float(text)).item()


def test_every_kind_of_number_is_printed(tmp_path):
    values = {
        "nan": ("f32[]", torch.tensor(float("nan")), "nan"),
        "inf": ("f64[1,1]", torch.tensor([[-float("inf")]], dtype=torch.float64), "-inf"),
        "tenth": ("f64[]", torch.tensor(0.1, dtype=torch.float64), 0.1),
        "half": ("f16[]", torch.tensor(0.5).half(), 0.5),
        "brain": ("bf16[]", torch.tensor(3.0).bfloat16(), 3.0),
        "count": ("i64[]", torch.tensor(-(2**62)), -(2**62)),
        "byte": ("u8[]", torch.tensor(200, dtype=torch.uint8), 200),
        "flag": ("bool[]", torch.tensor(True), True),
        "two": ("f32[2]", torch.zeros(2), None),
        "none": ("f32[0]", torch.zeros(0), None),
        "complex": ("c64[]", torch.tensor(1j), None),
    }
    lines = [f"  input %{name}: {kind}" for name, (kind, _, _) in values.items()]
    lines += [
        f"  %{name}.out: {kind} = aten::clone(%{name})" for name, (kind, _, _) in values.items()
    ]
    returned = ", ".join(f"%{name}.out" for name in values)
    text = "\n".join(["graph g {", *lines, f"  return {returned}", "}", ""])
    (tmp_path / "kinds.ebb").write_text(text, encoding="utf-8")
    save_file({name: tensor for name, (_, tensor, _) in values.items()}, tmp_path / "kinds.safetensors")
    report = json.loads(run_well(tmp_path / "kinds.ebb", "--json"))
    assert report["steps"][0]["outputs"] == [value for _, _, value in values.values()]
    line = run_well(tmp_path / "kinds.ebb").splitlines()[1]
    assert line.startswith(
        "step 1: %nan.out = nan, %inf.out = -inf, %tenth.out = 0.1, %half.out = 0.5, "
        "%brain.out = 3.0, %count.out = -4611686018427387904, %byte.out = 200, %flag.out = true, "
    )


def test_the_fields_of_json_are_documented(saved):
    report = json.loads(run_well(saved.path, "--json"))
    assert list(report) == ["arena_bytes", "state_bytes", "bound_bytes", "host_bytes", "steps"]
    assert list(report["steps"][0]) == ["outputs", "seconds"]
    assert report["state_bytes"] < report["bound_bytes"] <= report["arena_bytes"]
    assert report["host_bytes"] == 0, "nothing is swapped out"
    assert report["steps"][0]["seconds"] > 0
    section = (ROOT / "docs/command-line.md").read_text(encoding="utf-8").split("## `ebb run")[1]
    for field in [*report, *report["steps"][0]]:
        assert f"`{field}`" in section


def test_the_program_is_printed_instead_and_needs_no_state(small):
    small.with_suffix(".safetensors").unlink()
    text = run_well(small, "--program")
    assert text.startswith("program g: 4 instructions, arena ")
    assert "aten::sum(%y " in text


def test_help_is_documentation_with_examples():
    text = run_well("--help")
    assert "Examples:\n  ebb run step.ebb\n" in text
    for option in ("--steps", "--state", "--scalar", "--seed", "-o", "--program", "--threads", "--json"):
        assert option in text
    assert re.search(r"^  --no-cache +Measure anew", text, re.MULTILINE)


# What is wrong, and whose turn it is.


def refused(status, *args, **options):
    done = ebb_run(*args, **options)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("ebb: ")
    return done.stderr.removeprefix("ebb: ").rstrip("\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "STEP is required"),
        (["x.ebb", "--nonsense"], "ebb run has no option '--nonsense'"),
        (["x.ebb", "--bugdet", "3"], "ebb run has no option '--bugdet'; did you mean '--budget'?"),
        (["x.ebb", "--steps", "0"], "--steps"),
        (["x.ebb", "--threads", "0"], "--threads"),
        (["x.ebb", "--seed", "many"], "--seed: 'many' is no whole number of 64 bits"),
        (["x.ebb", "--seed", str(2**64)], "is no whole number of 64 bits"),
        (["x.ebb", "--program", "--json"], "--json"),
        (["x.ebb", "--program", "-o", "y"], "--program"),
        (["x.ebb", "-o", "-"], "name a file"),
    ],
)
def test_wrong_usage_is_status_2_and_points_to_the_help(args, words):
    first, second = refused(2, *args).splitlines()
    assert words in first
    assert second == "ebb: 'ebb run --help' tells more"


def test_a_step_from_standard_input_needs_a_state(small):
    assert "--state" in refused(2, "-", stdin=SMALL)
    state = small.with_suffix(".safetensors")
    assert "step 1: %s = 11.0" in run_well("-", "--state", state, stdin=SMALL)


def test_a_missing_step_or_state_is_named(small, tmp_path):
    assert refused(3, tmp_path / "none.ebb").endswith("none.ebb: No such file or directory")
    small.with_suffix(".safetensors").unlink()
    assert refused(3, small).endswith(
        "small.safetensors beside the step; a rewritten step begins with the state of the original: "
        "--state ORIGINAL.safetensors"
    )
    assert refused(3, small, "--state", tmp_path / "none.safetensors").endswith(
        "none.safetensors: No such file or directory"
    )
    assert refused(3, small, "--state", tmp_path).endswith("not a regular file")


def test_the_tensors_beside_a_step_are_not_taken_for_it(small):
    path = small.with_suffix(".safetensors")
    assert refused(3, path) == (
        f"{path} has the tensors of a step and not its graph; give {small}, which is written beside it"
    )


def test_a_graph_that_is_wrong_is_refused_with_its_line(small):
    small.write_text(SMALL.replace("(%x, %w)", "(%x, %v)"), encoding="utf-8")
    assert "small.ebb:5:38: P24" in refused(3, small)


def test_a_file_that_is_no_safetensors_is_refused(small):
    state = small.with_suffix(".safetensors")
    content = state.read_bytes()
    state.write_bytes(content[:-1])
    assert "small.safetensors: tensor 'x' is said to be at bytes 8 to 16 of 15" in refused(3, small)
    state.write_bytes(b"PK\3\4 and more of another format")
    assert "the file is cut off, or no safetensors file" in refused(3, small)


def test_missing_tensors_are_named_and_counted(small):
    state = small.with_suffix(".safetensors")
    write_small_state(state, w=None)
    assert refused(3, small) == (
        f"{state} has no 'w', which the step needs: is it another step's file?"
    )
    write_small_state(state, w=None, x=None, y=torch.zeros(1))
    assert refused(3, small) == (
        f"{state} has no 'x', which the step needs, and lacks 1 more: is it another step's file?"
    )


@pytest.mark.parametrize(
    ("tensor", "text"),
    [(torch.zeros(3), "f32[3]"), (torch.zeros(1, 2), "f32[1,2]"), (torch.zeros(2).double(), "f64[2]")],
)
def test_a_tensor_of_another_type_is_refused(small, tensor, text):
    state = small.with_suffix(".safetensors")
    write_small_state(state, w=tensor)
    assert refused(3, small) == f"{state}: 'w' is {text}, and the step has %w: f32[2]"


def test_tensors_that_the_step_does_not_have_are_noted(small):
    state = small.with_suffix(".safetensors")
    write_small_state(state, v=torch.zeros(1), y=torch.zeros(2))
    done = ebb_run(small)
    assert done.returncode == 0
    assert done.stderr == f"ebb: {state}: note: the step does not use 'v', nor 1 more of the file\n"


def test_a_file_of_a_later_version_is_refused(small):
    write_small_state(small.with_suffix(".safetensors"), {"format": "ebb-step-2"})
    assert "is of format ebb-step-2, and this version of ebb reads ebb-step-1" in refused(3, small)


def test_missing_scalars_are_named_with_the_remedy(small):
    state = small.with_suffix(".safetensors")
    write_small_state(state, {"format": "pt"})
    assert refused(2, small) == (
        f"{state} has no value for $lr, which the step needs: --scalar lr=VALUE"
    )
    two = SMALL.replace("  scalar $lr: f64\n", "  scalar $lr: f64\n  scalar $wd: f64\n")
    small.write_text(two, encoding="utf-8")
    assert "which the step needs (nor for 1 more): --scalar lr=VALUE" in refused(2, small)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["lrr=1"], "--scalar lrr: the step has no such scalar; did you mean lr?"),
        (["momentum=1"], "--scalar momentum: the step has no such scalar"),
        (["half=1"], "--scalar half: the step computes this one itself"),
        (["lr"], "--scalar lr: write NAME=VALUE"),
        (["lr="], "--scalar lr: '' is no number"),
        (["lr=fast"], "--scalar lr: 'fast' is no number"),
        (["lr=0x"], "--scalar lr: '0x' is no number"),
        (["lr=1", "lr=2"], "--scalar lr is given twice"),
    ],
)
def test_a_wrong_scalar_is_refused_with_the_nearest(small, given, words):
    arguments = [word for value in given for word in ("--scalar", value)]
    assert refused(2, small, *arguments) == words


def test_a_scalar_of_the_file_that_is_no_number_is_refused(small):
    state = small.with_suffix(".safetensors")
    write_small_state(state, {"format": "ebb-step-1", "scalar.lr": "fast"})
    assert refused(3, small) == f"{state}: scalar.lr: 'fast' is no number"


@pytest.mark.parametrize("size", [1, 5056])
def test_a_generator_that_is_none_is_refused(small, size):
    state = small.with_suffix(".safetensors")
    write_small_state(state, **{"ebb.generator": torch.full((size,), 255, dtype=torch.uint8)})
    words = refused(3, small)
    assert words.startswith(f"{state}: 'ebb.generator' is no state of PyTorch's random number generator")


def test_an_output_that_cannot_be_written_is_refused_before_the_run(small, tmp_path):
    path = tmp_path / "no/such/folder/after.safetensors"
    assert refused(3, small, "-o", path) == f"cannot write {path}: No such file or directory"
    assert refused(3, small, "-o", tmp_path) == f"cannot write {tmp_path}: Is a directory"


def test_an_operation_that_fails_is_named_and_the_old_output_stays(small, tmp_path):
    small.write_text(SMALL.replace("aten::sum(%y)", "aten::no_such(%y)"), encoding="utf-8")
    (tmp_path / "after.safetensors").write_text("precious")
    assert "no_such" in refused(3, small, "-o", tmp_path / "after.safetensors")
    assert (tmp_path / "after.safetensors").read_text() == "precious"


def test_a_full_disk_is_an_error(small):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    done = ebb_run(small, "-o", "/dev/full")
    assert done.returncode == 3
    assert "cannot write /dev/full: No space left" in done.stderr


# Ctrl-C.

SLOW = "\n".join(f"  %y{i + 1}: f32[900,900] = aten::mm(%y{i}, %x)" for i in range(60))
UPDATE = "  %w.1: f32[1] ~ %w = aten::add_.Scalar(%w!) {other = 1}"
SLOW_THEN_UPDATE = f"""graph g {{
  input %x: f32[900,900]
  param %w: f32[1]
  %y0: f32[900,900] = aten::mm(%x, %x)
{SLOW}
{UPDATE}
  return %y60
}}
"""
UPDATE_THEN_SLOW = f"""graph g {{
  input %x: f32[900,900]
  param %w: f32[1]
{UPDATE}
  %y0: f32[900,900] = aten::mm(%x, %x)
{SLOW}
  return %y60
}}
"""


def interrupt(path, steps, *args):
    """Runs a slow step, presses Ctrl-C within the second; gives back status, lines and messages."""
    save_file({"x": torch.zeros(900, 900), "w": torch.zeros(1)}, path.with_suffix(".safetensors"))
    process = subprocess.Popen(
        [TOOL, "run", path, "--steps", str(steps), "--threads", "1", *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    lines = [process.stdout.readline(), process.stdout.readline()]
    assert lines[1].startswith("step 1: ")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, "".join(lines) + out, err


def test_ctrl_c_stops_a_step_that_has_not_changed_the_state(tmp_path):
    (tmp_path / "slow.ebb").write_text(SLOW_THEN_UPDATE, encoding="utf-8")
    after = tmp_path / "after.safetensors"
    status, lines, messages = interrupt(tmp_path / "slow.ebb", 2, "-o", str(after))
    assert status == 130
    assert messages == f"ebb: interrupted after step 1 of 2; {after} is not written\n"
    assert "step 2" not in lines
    assert not after.exists()


def test_ctrl_c_lets_a_step_finish_that_has_begun_to_change_the_state(tmp_path):
    (tmp_path / "slow.ebb").write_text(UPDATE_THEN_SLOW, encoding="utf-8")
    after = tmp_path / "after.safetensors"
    status, lines, messages = interrupt(tmp_path / "slow.ebb", 3, "-o", str(after))
    assert status == 130
    assert messages == f"ebb: interrupted after step 2 of 3; {after} is not written\n"
    assert "step 2: " in lines
    assert not after.exists()


def test_ctrl_c_in_a_last_step_that_is_finished_loses_nothing(tmp_path):
    (tmp_path / "slow.ebb").write_text(UPDATE_THEN_SLOW, encoding="utf-8")
    after = tmp_path / "after.safetensors"
    status, _, messages = interrupt(tmp_path / "slow.ebb", 2, "-o", str(after))
    assert status == 130
    assert messages == f"ebb: interrupted when all steps were done; {after} is written\n"
    assert load_file(after)["w"].item() == 2.0


def test_ctrl_c_while_operations_are_measured_ends_at_once(tmp_path):
    lines = [f"  %y{n}: f32[{n},900] = aten::mm(%x{n}, %x)" for n in range(800, 900)]  # all different
    inputs = [f"  input %x{n}: f32[{n},900]" for n in range(800, 900)]
    text = ["graph g {", "  input %x: f32[900,900]", *inputs, *lines, "  return %y899", "}", ""]
    (tmp_path / "slow.ebb").write_text("\n".join(text), encoding="utf-8")
    process = subprocess.Popen(
        [TOOL, "run", tmp_path / "slow.ebb", "--program", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    status = pathlib.Path(f"/proc/{process.pid}/status")
    for _ in range(6000):  # until it watches for the signal
        caught = int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16)
        if caught >> (signal.SIGINT - 1) & 1:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "ebb: interrupted\n")
