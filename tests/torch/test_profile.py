"""`ebb run --save-profile`: what the operations of a step took, and the workspaces that the arena has for them."""

import json
import re
import subprocess

import pytest
from run_tool import ROOT, TOOL, cnn, losses_of, refused, run_well, transformer

ALIGNMENT = 64


@pytest.fixture(scope="module", params=[cnn, transformer])
def step(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("step")).path


@pytest.fixture(scope="module")
def profile(step):
    return saved_profile(step, step.with_name("profile.json"), "--steps", 3)


def saved_profile(step, path, *args):
    run_well(step, "--save-profile", path, *args)
    return json.loads(path.read_text(encoding="utf-8"))


def operator(call):
    return call.split("(")[0]


def places(text):
    """'64..96, 16 elsewhere' has one place, (64, 96)."""
    return [(int(begin), int(end)) for begin, end in re.findall(r"(\d+)\.\.(\d+)", text)]


def workspaces_in(program):
    """By operator: the sizes of the workspaces that its operations have in the arena."""
    workspaces = {}
    for line in program.splitlines()[1:]:
        line, _, asked = line.partition(" asks for ")
        results, _, call = line.partition(" = ")
        temporaries = [place for place in places(asked) if place not in places(results)]
        begin = min((begin for begin, _ in temporaries), default=0)
        end = max((end for _, end in temporaries), default=0)
        size = -(-(end - begin) // ALIGNMENT) * ALIGNMENT
        workspaces.setdefault(operator(call), set()).add(size)
    return workspaces


def test_every_operation_has_a_time_and_host_arithmetic_and_copies_are_not_there(step, profile):
    assert (profile["version"], profile["device"]) == (1, "cpu")
    assert all(0 < each["seconds"] < 10 for each in profile["operations"])
    in_profile = {operator(each["signature"]) for each in profile["operations"]}
    in_program = set(workspaces_in(run_well(step, "--program")))
    assert in_profile == {op for op in in_program if not op.startswith(("ebb::", "scalar::"))}


def test_workspaces_are_those_that_the_program_has_in_its_arena(step, profile):
    workspaces = {}
    for each in profile["operations"]:
        workspaces.setdefault(operator(each["signature"]), set()).add(each["workspace"])
    expected = workspaces_in(run_well(step, "--program"))
    assert workspaces == {op: sizes for op, sizes in expected.items() if op in workspaces}
    assert any(max(sizes) > 0 for sizes in workspaces.values())


def test_a_rewritten_step_has_no_operation_that_the_original_has_not(step, profile, tmp_path):
    path = tmp_path / "rewritten.ebb"
    again = "aten::relu" if "aten::relu" in step.read_text(encoding="utf-8") else "aten::gelu"
    subprocess.run([TOOL, "rewrite", step, "-o", path, "--recompute-types", again], check=True)
    text = path.read_text(encoding="utf-8")
    assert ".again: " in text and "ebb::swap_in(" in text
    state = step.with_suffix(".safetensors")
    ours = saved_profile(path, tmp_path / "profile.json", "--state", state)

    def without_times(operations):
        return [(each["signature"], each["workspace"]) for each in operations]

    assert without_times(ours["operations"]) == without_times(profile["operations"])


def test_the_numbers_are_the_same_when_they_are_timed(step, tmp_path):
    losses = losses_of(step, "--steps", 3)
    assert losses_of(step, "--steps", 3, "--save-profile", tmp_path / "profile.json") == losses


def test_a_profile_that_cannot_be_written_is_refused_before_the_run(step, tmp_path):
    assert "Is a directory" in refused(3, step, "--save-profile", tmp_path)
    assert refused(2, step, "--save-profile", "-").startswith("the profile cannot go to standard output")
    assert "--save-profile" in refused(2, step, "--program", "--save-profile", tmp_path / "p.json")


def test_the_option_is_documented():
    assert "--save-profile FILE.json" in run_well("--help")
    section = (ROOT / "docs/command-line.md").read_text(encoding="utf-8").split("## `ebb run")[1]
    assert "`--save-profile FILE`" in section
