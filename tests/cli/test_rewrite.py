"""`ebb rewrite` and `ebb apply`: what they write, what they say, and how they refuse."""

import json
import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"

STEP = """graph step {
  input %x: f32[256]
  %conv/a: f32[256] = my::f(%x)
  %conv/b: f32[256] = my::f(%conv/a)
  %conv/c: f32[256] = my::f(%conv/b)
  %gradients/c: f32[256] = my::df(%conv/c)
  %gradients/b: f32[256] = my::df(%gradients/c, %conv/b)
  %gradients/a: f32[256] = my::df(%gradients/b, %conv/a)
  return %gradients/a
}
"""
SWAPPED = """graph step {
  input %x: f32[256]
  %conv/a: f32[256] = my::f(%x)
  %conv/a.host: f32[256] @host = ebb::swap_out(%conv/a)
  %conv/b: f32[256] = my::f(%conv/a)
  %conv/b.host: f32[256] @host = ebb::swap_out(%conv/b)
  %conv/c: f32[256] = my::f(%conv/b)
  %gradients/c: f32[256] = my::df(%conv/c)
  %conv/b.back: f32[256] = ebb::swap_in(%conv/b.host) after gradients/c
  %gradients/b: f32[256] = my::df(%gradients/c, %conv/b.back)
  %conv/a.back: f32[256] = ebb::swap_in(%conv/a.host) after gradients/b
  %gradients/a: f32[256] = my::df(%gradients/b, %conv/a.back)
  return %gradients/a
}
"""


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.ebb"
    path.write_text(STEP)
    return path


def test_rewrite_writes_the_graph_and_tells_people_what_it_did(ebb, step, tmp_path):
    done = ebb("rewrite", step, "-o", "out.ebb")
    assert done.returncode == 0
    assert done.stdout == ""
    assert (tmp_path / "out.ebb").read_text() == SWAPPED
    assert done.stderr.splitlines() == [
        "Swapped: 2 tensors, 2.0 KiB; 2 swap-ins",
        "Backward phase: 3 operations",
        "Peak before: 4.0 KiB at 'gradients/c'; after: 3.0 KiB at 'gradients/b'; "
        "on the host: 2.0 KiB",
        "Left alone: 1 edge",
        "       1  the reader follows too closely: no level of γ is between; "
        "first: %conv/c for 'gradients/c'",
    ]


def test_rewrite_goes_from_standard_input_to_standard_output(ebb):
    done = ebb("rewrite", "-", "-o", "-", stdin=STEP)
    assert done.returncode == 0
    assert done.stdout == SWAPPED


def test_rewrite_json_has_the_promised_fields(ebb, step):
    done = ebb("rewrite", step, "-o", "out.ebb", "--json")
    said = json.loads(done.stdout)
    assert said.pop("seconds") >= 0
    assert said == {
        "nodes_before": 7,
        "nodes_after": 11,
        "tensors_swapped": 2,
        "swap_outs": 2,
        "swap_ins": 2,
        "encodes": 0,
        "decodes": 0,
        "bytes_swapped": 2048,
        "unknown_sizes": 0,
        "tensors_recomputed": 0,
        "bytes_recomputed": 0,
        "recomputations": 0,
        "sync_edges": 0,
        "sync_refused": 0,
        "peak_bytes_before": 4096,
        "peak_bytes_after": 3072,
        "host_peak_bytes": 2048,
        "backward_operations": 3,
        "refused": [
            {
                "tensor": "conv/c",
                "consumer": "gradients/c",
                "reason": "the reader follows too closely: no level of γ is between",
            }
        ],
        "functions": [],
    }


def test_recomputing_and_sync_are_in_json_plan_and_proof(ebb, step, tmp_path):
    options = ["--recompute-types", "my::f", "--sync", "1", "--excl-types", "df", "--json"]
    done = ebb("rewrite", step, "-o", "out.ebb", "--save-plan", "step.plan", *options)
    said = json.loads(done.stdout)
    assert said["tensors_recomputed"] == 2
    assert said["bytes_recomputed"] == 2048
    assert said["recomputations"] == 3
    assert said["tensors_swapped"] == 1
    assert "Recomputed: 2 tensors, 2.0 KiB; 3 clones\n" in done.stderr
    assert ebb("apply", step, "step.plan", "-o", "again.ebb").returncode == 0
    assert (tmp_path / "again.ebb").read_text() == (tmp_path / "out.ebb").read_text()
    assert ebb("verify", step, "out.ebb").returncode == 0

    done = ebb("rewrite", step, "-o", "out.ebb", "--save-plan", "step.plan", "--sync", "1", "--json")
    assert json.loads(done.stdout)["sync_edges"] == 1
    assert "Sync: 1 control edge from swap-outs to later operations\n" in done.stderr
    assert "delay conv/b after conv/a.host" in (tmp_path / "step.plan").read_text()
    assert ebb("verify", step, "out.ebb").returncode == 0


def test_the_help_says_what_sync_does_to_forward_only_runs(ebb):
    text = " ".join(ebb("rewrite", "--help").stdout.split())
    assert "A run of the forward phase alone then copies tensors to the host as well" in text


def test_what_was_rewritten_is_verified_and_proved_by_the_other_commands(ebb, step):
    ebb("rewrite", step, "-o", "out.ebb")
    assert ebb("verify", "out.ebb").returncode == 0
    proved = ebb("verify", step, "out.ebb")
    assert proved.returncode == 0
    assert "2 swap-outs, 2 swap-ins" in proved.stdout


def test_a_second_rewrite_changes_nothing(ebb, step, tmp_path):
    ebb("rewrite", step, "-o", "once.ebb")
    assert ebb("rewrite", "once.ebb", "-o", "twice.ebb").returncode == 0
    assert (tmp_path / "twice.ebb").read_text() == SWAPPED


@pytest.mark.parametrize("model", ["mlp", "resnet", "transformer", "unet"])
def test_the_examples_are_rewritten_with_less_memory_at_the_peak(ebb, model):
    done = ebb("rewrite", EXAMPLES / f"{model}.ebb", "-o", "out.ebb", "--json")
    said = json.loads(done.stdout)
    assert said["peak_bytes_after"] < said["peak_bytes_before"]
    assert ebb("verify", EXAMPLES / f"{model}.ebb", "out.ebb").returncode == 0


def test_a_saved_plan_makes_the_same_graph(ebb, step, tmp_path):
    ebb("rewrite", step, "-o", "out.ebb", "--save-plan", "step.plan")
    assert (tmp_path / "step.plan").read_text().splitlines()[2:] == [
        "swap %conv/a for gradients/a after gradients/b",
        "swap %conv/b for gradients/b after gradients/c",
        "end",
    ]
    done = ebb("apply", step, "step.plan", "-o", "again.ebb", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "nodes_before": 7,
        "nodes_after": 11,
        "decisions": 2,
        "swap_outs": 2,
        "swap_ins": 2,
        "encodes": 0,
        "decodes": 0,
        "snapshots": 0,
        "clones": 0,
        "splits": 0,
    }
    assert done.stderr == (
        "Applied 2 decisions: 7 nodes compute the same; "
        "added: 2 swap-outs, 2 swap-ins, 2 control edges\n"
    )
    assert (tmp_path / "again.ebb").read_text() == SWAPPED


@pytest.mark.parametrize("command", ["rewrite", "apply"])
def test_dump_after_each_shows_the_graph_after_every_decision(ebb, step, tmp_path, command):
    ebb("rewrite", step, "-o", "out.ebb", "--save-plan", "step.plan")
    source = [step] if command == "rewrite" else [step, "step.plan"]
    done = ebb(command, *source, "-o", "out.ebb", "--dump-after=each")
    dumps = done.stderr.split("# after: ")
    assert len(dumps) == 3
    assert dumps[1].startswith("swap %conv/a for gradients/a after gradients/b\ngraph step {\n")
    assert dumps[1].count("ebb::swap_out") == 1
    assert dumps[2].startswith("swap %conv/b for gradients/b after gradients/c\n" + SWAPPED)


WRONG_OPTIONS = [
    (["--lb", "0"], "lb is 0; it must be at least 1"),
    (["--lb", "4", "--ub", "3"], "lb is 4 and ub is 3"),
    (["--ctrld-strategy", "chain_rul"], "did you mean 'chain_rule'?"),
    (["--optimizer-scopes", "gradient"], "no operation is under 'gradient'; did you mean 'gradi"),
    (["--excl-scopes", "zzz"], "most operations are under 'conv' (3), 'gradients' (3)"),
    (["--incl-types", "my::g"], "no operation is of type 'my::g'; did you mean"),
    (["--starting-op-names", "conv/aa"], "no operation 'conv/aa'; did you mean 'conv/a'?"),
    (["--codec", "bit"], "did you mean 'bits'?"),
    (["--alpha", "3"], "--alpha requires --whole-graph"),
    (["--branch-threshold", "3"], "--branch-threshold requires --swap-branches"),
    (["--fuse-distance", "3"], "--fuse-distance requires --fuse-swapins"),
    (["--lb", "99999999999999999999"], "'99999999999999999999' is too large a number"),
    (["--lb", "1.5"], "'1.5' is no whole number"),
    (["--min-bytes", "4 apples"], "apples"),
    (["--n-tensors", "many"], "many"),
    (["--dump-after=never"], "never"),
]


@pytest.mark.parametrize("options, message", WRONG_OPTIONS, ids=[" ".join(w[0]) for w in WRONG_OPTIONS])
def test_wrong_options_are_wrong_usage_and_nothing_is_written(ebb, step, tmp_path, options, message):
    done = ebb("rewrite", step, "-o", "out.ebb", *options)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "out.ebb").exists()


def test_json_and_the_graph_do_not_share_standard_output(ebb, step):
    for args in (["rewrite", step], ["apply", step, "x.plan"]):
        done = ebb(*args, "-o", "-", "--json")
        assert done.returncode == 2
        assert "name a file" in done.stderr


def test_no_output_replaces_another_nor_an_input(ebb, step, tmp_path):
    (tmp_path / "a.plan").write_text("kept")
    for args in (
        ["rewrite", step, "-o", "a.ebb", "--save-plan", "a.ebb"],
        ["rewrite", step, "-o", "-", "--save-plan", "-"],
        ["rewrite", step, "-o", "a.ebb", "--save-plan", step],
        ["rewrite", step, "-o", "a.ebb", "--save-plan", "-", "--json"],
        ["apply", step, "a.plan", "-o", "./a.plan"],
        ["rewrite", step, "-o", "step.safetensors"],
        ["rewrite", step, "-o", "a.ebb", "--save-plan", "step.safetensors"],
        ["apply", step, "a.plan", "-o", "step.safetensors"],
        ["convert", step, "step.safetensors", "--to", "ebb"],
    ):
        done = ebb(*args)
        assert done.returncode == 2, (args, done.stderr)
        assert done.stderr.count("name") == 1
    assert step.read_text() == STEP
    assert (tmp_path / "a.plan").read_text() == "kept"
    assert not (tmp_path / "a.ebb").exists()


def test_without_a_place_for_the_plan_there_is_no_graph(ebb, step, tmp_path):
    done = ebb("rewrite", step, "-o", "a.ebb", "--save-plan", "nowhere/a.plan")
    assert done.returncode == 3
    assert not (tmp_path / "a.ebb").exists()


def test_a_graph_may_be_rewritten_in_its_place(ebb, step):
    assert ebb("rewrite", step, "-o", step).returncode == 0
    assert step.read_text() == SWAPPED


def plan_of(ebb, step, tmp_path, *decisions):
    ebb("rewrite", step, "-o", "out.ebb", "--n-tensors", "0", "--save-plan", "step.plan")
    plan = tmp_path / "step.plan"
    head = plan.read_text().removesuffix("end\n")
    plan.write_text(head + "".join(f"{decision}\n" for decision in decisions) + "end\n")
    (tmp_path / "out.ebb").unlink()


WRONG_DECISIONS = [
    ("swap %conv/a for gradients/b after gradients/c", "'gradients/b' does not read it"),
    ("swap %conv/a for gradients/a after gradients/a", "'gradients/a' cannot wait for itself"),
    ("swap %conv/aa for gradients/a after gradients/b", "did you mean 'conv/a'?"),
    ("swop %conv/a for gradients/a after gradients/b", "expected 'swap', 'recompute', 'delay', 'move' or 'split'"),
    ("recompute %x for conv/a after conv/b", "it is given from outside"),
    ("delay conv/a after conv/b", "'conv/b' runs after 'conv/a'"),
]


@pytest.mark.parametrize("decision, message", WRONG_DECISIONS, ids=[w[0] for w in WRONG_DECISIONS])
def test_a_decision_that_does_not_apply_is_named_with_its_line(
    ebb, step, tmp_path, decision, message
):
    plan_of(ebb, step, tmp_path, "swap %conv/b for gradients/b after gradients/c", decision)
    done = ebb("apply", step, "step.plan", "-o", "out.ebb")
    assert done.returncode == 3
    assert done.stderr.startswith("ebb: step.plan:4:"), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "out.ebb").exists()


def test_a_plan_for_another_graph_is_refused(ebb, step, tmp_path):
    plan_of(ebb, step, tmp_path)
    done = ebb("apply", EXAMPLES / "mlp.ebb", "step.plan", "-o", "out.ebb")
    assert done.returncode == 3
    assert "made for another graph" in done.stderr
    assert not (tmp_path / "out.ebb").exists()


def test_a_part_of_a_plan_is_none(ebb, step, tmp_path):
    ebb("rewrite", step, "-o", "out.ebb", "--save-plan", "step.plan")
    plan = (tmp_path / "step.plan").read_text()
    for length in (len(plan) - 1 - len("end"), len(plan) - 20, plan.index("swap")):
        (tmp_path / "part.plan").write_text(plan[:length])
        done = ebb("apply", step, "part.plan", "-o", "part.ebb")
        assert done.returncode == 3
        assert "L03: the plan ends without the line 'end'; get the whole file" in done.stderr
        assert not (tmp_path / "part.ebb").exists()


def test_a_file_that_is_no_plan_is_refused(ebb, step):
    done = ebb("apply", step, step, "-o", "out.ebb")
    assert done.returncode == 3
    assert "this is no plan; a plan begins with 'ebb plan 1'" in done.stderr


def test_where_in_the_users_code_an_operation_stands_is_no_part_of_it(ebb, tmp_path):
    def noted(line):
        return STEP.replace("my::f(%x)", f'my::f(%x) {{ebb.at = "model.py:{line}", n = 1}}')

    (tmp_path / "step.ebb").write_text(noted(1))
    (tmp_path / "moved.ebb").write_text(noted(2))
    ebb("rewrite", "step.ebb", "-o", "out.ebb", "--save-plan", "step.plan")
    assert ebb("apply", "moved.ebb", "step.plan", "-o", "again.ebb").returncode == 0
    assert ebb("verify", "moved.ebb", "out.ebb").returncode == 0
    (tmp_path / "other.ebb").write_text(noted(1).replace("n = 1", "n = 2"))
    assert ebb("apply", "other.ebb", "step.plan", "-o", "again.ebb").returncode == 3
    assert ebb("verify", "other.ebb", "out.ebb").returncode == 5


def test_options_may_stand_before_the_graph(ebb, step):
    assert ebb("rewrite", "--excl-scopes", "conv", step, "-o", "out.ebb").returncode == 0


def test_nothing_swapped_has_a_reason(ebb, step):
    done = ebb("rewrite", step, "-o", "out.ebb", "--incl-scopes", "gradients")
    assert done.stderr.startswith("Nothing is swapped.\n")
    assert "3  excluded by scope or type; first: %conv/a for 'gradients/a'\n" in done.stderr


def test_a_codec_that_loses_bits_is_announced(ebb, step):
    done = ebb("rewrite", step, "-o", "out.ebb", "--codec", "bf16", "--json")
    assert "The codec loses bits: training will differ from what it was\n" in done.stderr
    assert json.loads(done.stdout)["encodes"] == 2
    assert ebb("verify", step, "out.ebb").returncode == 5
    assert ebb("verify", step, "out.ebb", "--allow-lossy").returncode == 0


def test_a_peak_that_rose_is_announced(ebb):
    # %a comes back twice, for each reader two levels before, and so two copies are there at once.
    twice = """graph step {
  input %x: f32[4]
  %a: f32[256] = my::f(%x)
  %b: f32[4] = my::f(%a)
  %l: f32[4] = my::f(%b)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/b: f32[4] = my::df(%gradients/l, %a)
  %gradients/a: f32[4] = my::df(%gradients/b, %a)
  return %gradients/a
}
"""
    options = ["--ctrld-strategy", "direct_order", "--lb", "2"]
    done = ebb("rewrite", "-", "-o", "out.ebb", *options, stdin=twice)
    assert "The peak is higher than before: tensors come back too early" in done.stderr
    done = ebb("rewrite", "-", "-o", "out.ebb", *options, "--fuse-swapins", stdin=twice)
    assert "higher" not in done.stderr


def test_a_plan_that_is_not_there_is_named(ebb, step):
    done = ebb("apply", step, "nowhere.plan", "-o", "out.ebb")
    assert done.returncode == 3
    assert "nowhere.plan" in done.stderr


def test_one_standard_input_is_not_both_the_graph_and_the_plan(ebb):
    done = ebb("apply", "-", "-", "-o", "out.ebb", stdin=STEP)
    assert done.returncode == 2
    assert "not both" in done.stderr
