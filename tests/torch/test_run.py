"""`ebb run`: a saved step in a process without Python computes what eager PyTorch does."""

import json
import re
import subprocess

import pytest
import torch
from run_tool import (  # noqa: F401: fixtures
    ENVIRONMENT,
    ROOT,
    TOOL,
    cnn,
    losses_of,
    metadata_of,
    run_well,
    saved,
    small,
    transformer,
)
from safetensors.torch import load_file, save_file
from same_bits import bits

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
