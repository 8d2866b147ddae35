"""`ebb run`: what is wrong, and whose turn it is."""

import os
import re

import pytest
import torch
from run_tool import SMALL, ebb_run, refused, run_well, saved, small, write_small_state  # noqa: F401: fixtures


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "STEP is required"),
        (["x.ebb", "--nonsense"], "ebb run has no option '--nonsense'"),
        (["x.ebb", "--bugdet", "3"], "ebb run has no option '--bugdet'; did you mean '--budget'?"),
        (["x.ebb", "--budget"], "--budget needs a value: --budget SIZE|PERCENT"),
        (["x.ebb", "--budget", "3GiB", "--budget", "4GiB"], "give --budget only once"),
        (["x.ebb", "--steps", "0"], "--steps"),
        (["x.ebb", "--steps", "99999999999999999999"], "--steps"),
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


def test_a_named_pipe_is_no_state_and_a_second_cpu_no_device(small, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "pipe: not a regular file" in refused(3, small, "--state", tmp_path / "pipe")  # and waits for nobody
    assert "and not on 'cpu:7'" in refused(2, small, "--device", "cpu:7")


def test_two_outputs_of_one_name_are_refused_as_such(small, tmp_path):
    one = tmp_path / "one.safetensors"
    assert "is to be two files at once" in refused(2, small, "-o", one, "--trace", one)


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


@pytest.mark.parametrize("version", ["ebb-step-", "ebb-step-10", "ebb-step-1 "])
def test_a_named_state_of_another_format_is_refused_too(small, version):
    state = small.with_name("other.safetensors")
    write_small_state(state, {"format": version})
    said = f"{state} is of format {version}, and this version of ebb reads ebb-step-1: save the step again"
    assert refused(3, small, "--state", str(state)) == said


@pytest.mark.parametrize("metadata", [{}, {"format": "pt"}, {"format": "ebb-step-1"}])
def test_a_named_state_of_this_format_or_of_another_program_is_read(small, metadata):
    state = small.with_name("other.safetensors")
    write_small_state(state, metadata | {"scalar.lr": (1.0).hex()})
    assert ebb_run(small, "--state", str(state)).returncode == 0


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


@pytest.mark.parametrize("option", ["-o", "--trace", "--save-profile"])
def test_the_step_is_not_overwritten(small, option):
    assert refused(2, small, option, small).endswith("which is read as well; name another file")
    assert small.read_text(encoding="utf-8") == SMALL


@pytest.mark.parametrize("option", ["--trace", "--save-profile"])
def test_the_state_is_not_overwritten_by_anything_else(small, option, tmp_path):
    state = small.with_suffix(".safetensors")
    before = state.read_bytes()
    assert refused(2, small, option, state).endswith("which is read as well; name another file")
    other = tmp_path / "of_another.safetensors"
    other.write_text("precious")
    assert refused(2, small, option, other).endswith("which would be lost; name another file")
    assert other.read_text() == "precious"
    assert state.read_bytes() == before
    run_well(small, "-o", state)  # what became of it may take its place
    assert state.read_bytes() != before


def test_two_outputs_are_two_files(small, tmp_path):
    path = tmp_path / "out"
    assert refused(2, small, "-o", path, "--trace", path).endswith("is to be two files at once; give two names")
    assert refused(2, small, "--save-profile", path, "--trace", path).endswith("give two names")
    assert not path.exists()


def test_a_host_budget_that_is_none_is_refused_where_all_fits_too(small):
    assert refused(2, small, "--host-budget", "banana").startswith("the host budget: ")


def test_per_cent_are_of_what_the_step_needs_as_it_is(saved):
    said = ebb_run(saved.path, "--budget", "1%").stderr
    whole = int(re.search(r"arena_bytes\": (\d+)", run_well(saved.path, "--json"))[1])
    least, percent = re.search(r"into .* \(1 %\); the least budget found is (\d+)B \((\S+) %\)", said).groups()
    assert int(least) / whole * 100 == pytest.approx(float(percent), abs=0.02)


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
