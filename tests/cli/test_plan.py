"""`ebb plan`: what it finds, what it says, how it refuses; and `ebb apply` of what it found."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

# %a is needed again at the end; tensors have 300 or 100 bytes, copies take one nanosecond a byte.
STEP = """graph step {
  input %x: f32[25]
  %a: f32[75] = my::f(%x) takes 100ns
  %b: f32[75] = my::f(%a) takes 400ns
  %c: f32[75] = my::f(%b) takes 400ns
  %d: f32[25] = my::f(%c) takes 400ns
  %e: f32[25] = my::f(%d) takes 400ns
  %r: f32[25] = my::g(%e, %a) takes 100ns
  return %r
}
"""
DEVICE = """{"name": "table", "memory": "1GB", "memory_bandwidth": "1GB/s", "flops": {"f32": "1GFLOP/s"},
 "alignment": "4B", "link": {"to_host": "1GB/s", "to_device": "1GB/s"}}
"""
PLAN = """ebb plan 1
graph {fingerprint}
device table
budget 700B
swap %a for r after d
move a.host below b
peak 600B
host 300B
step 1.8us
unconstrained 1.8us
at %x 300B
at %a 0B
at %b 300B
at %a.host 0B
at %c 0B
at %d 300B
at %a.back 0B
at %e 400B
at %r 300B
end
"""


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.ebb"
    path.write_text(STEP)
    (tmp_path / "table.json").write_text(DEVICE)
    return path


def plan(ebb, *args):
    return ebb("plan", "step.ebb", "--model", "table.json", *args)


def test_a_plan_has_decisions_prediction_and_offsets(ebb, step, tmp_path):
    done = plan(ebb, "--budget", "700B", "-o", "step.plan")
    assert (done.returncode, done.stdout) == (0, "")
    text = (tmp_path / "step.plan").read_text()
    fingerprint = text.split("\n")[1].split()[1]
    assert text == PLAN.format(fingerprint=fingerprint)
    assert done.stderr == (
        "memory: 600 B of the budget of 700 B, 78 % of the 900 B without a plan; the largest operation 600 B\n"
        "step:   1.8 us, 1.00 times the 1.8 us without a plan; nothing waits\n"
        "swapped:  1 tensor, 300 B, of which the host holds 300 B at a time\n"
        "computed again: 0 tensors, 0 B, by 0 operations\n"
    )


def test_what_is_planned_can_be_applied_and_computes_the_same(ebb, step):
    assert plan(ebb, "--budget", "600B", "-o", "step.plan").returncode == 0
    assert ebb("apply", step, "step.plan", "-o", "rewritten.ebb").returncode == 0
    assert ebb("verify", step, "rewritten.ebb").returncode == 0


def test_json_has_the_documented_keys(ebb, step):
    done = plan(ebb, "--budget", "700B", "--json")
    report = json.loads(done.stdout)
    assert report["feasible"] is True
    assert report["budget_bytes"] == 700
    assert report["peak_bytes"] == 600
    assert report["host_bytes"] == 300
    assert report["floor_bytes"] == 600
    assert report["step_seconds"] == pytest.approx(1.8e-6)
    assert report["unconstrained_seconds"] == pytest.approx(1.8e-6)
    assert report["decisions"] == ["swap %a for r after d", "move a.host below b"]


def test_a_budget_may_be_a_part_of_what_the_step_needs(ebb, step):
    assert json.loads(plan(ebb, "--budget", "80%", "--json").stdout)["budget_bytes"] == 720


def test_equal_inputs_give_equal_plans(ebb):
    runs = {ebb("plan", EXAMPLES / "resnet.ebb", "--budget", "50%", "-o", "-").stdout for _ in range(3)}
    assert len(runs) == 1


def test_where_nothing_fits_it_says_why_and_what_would(ebb, step, tmp_path):
    done = plan(ebb, "--budget", "500B", "-o", "step.plan", "--json")
    assert done.returncode == 4
    assert done.stderr == (
        "The largest operation alone needs 600 B.\n"
        "With 600 B it needs most at 'b', where there are:\n"
        "       300 B  %a: 'b' reads it\n"
        "       300 B  %b: 'b' makes it\n"
        "What would help: a budget of 600B; a smaller batch.\n"
        "ebb: step.ebb: no plan fits into 500 B (56 %); the least budget found is 600B (66.67 %)\n"
    )
    report = json.loads(done.stdout)
    assert report["feasible"] is False
    assert report["least_budget_bytes"] == 600
    assert not (tmp_path / "step.plan").exists()
    assert plan(ebb, "--budget", "600B").returncode == 0
    assert plan(ebb, "--budget", "66.67%").returncode == 0
    assert plan(ebb, "--budget", "66.66%").returncode == 4


def test_with_what_a_plan_needs_on_the_host_there_is_a_plan_for_that(ebb, tmp_path):
    for example, budget in (("resnet", "50%"), ("resnet", "35%"), ("unet", "55%")):  # the last two by planning without
        args = ["plan", EXAMPLES / f"{example}.ebb", "--budget", budget, "--evaluations", "300"]
        planned = json.loads(ebb(*args, "--json").stdout)
        host = ["--host-budget", f"{planned['host_bytes']}B"]
        assert ebb(*args, *host, "-o", "a.plan").returncode == 0
        assert "\nhost_budget " in (tmp_path / "a.plan").read_text()


def test_a_host_budget_is_honoured(ebb, step):
    assert plan(ebb, "--budget", "600B", "--host-budget", "100B").returncode == 0
    done = plan(ebb, "--budget", "600B", "--host-budget", "99B")
    assert done.returncode == 4
    assert "with 99 B on the host; more there would help" in done.stderr
    assert "What would help: a larger host budget;" in done.stderr


def test_means_can_be_switched_off(ebb, step):
    swapped = json.loads(plan(ebb, "--budget", "600B", "--no-recompute", "--json").stdout)
    assert swapped["tensors_recomputed"] == 0
    again = json.loads(plan(ebb, "--budget", "700B", "--no-swap", "--json").stdout)
    assert again["tensors_swapped"] == 0
    assert again["decisions"] == ["recompute %a for r after e"]
    done = plan(ebb, "--budget", "600B", "--no-swap")
    assert done.returncode == 4
    assert "swapping, which --no-swap forbids" in done.stderr


CONVOLUTION = """graph step {
  input %x: f32[25]
  param %w: f32[25]
  %a: f32[75] = my::f(%x) random takes 100ns
  %b: f32[25] = my::f(%a) takes 400ns
  %g: f32[25] = my::f(%b) takes 400ns
  %ga: f32[75], %gw: f32[25] = aten::convolution_backward(%g, %a, %w) {output_mask = [true, true, false]} takes 200ns
  %r: f32[25] = my::f(%ga) takes 100ns
  return %r, %gw
}
"""


def test_a_derivative_of_a_convolution_is_split_where_it_stands_at_the_peak(ebb, step, tmp_path):
    (tmp_path / "step.ebb").write_text(CONVOLUTION)
    done = plan(ebb, "--budget", "600B", "-o", "step.plan", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["decisions"], told["calls_split"], told["floor_bytes"]) == (["split ga"], 1, 600)
    assert done.stderr.endswith("split: 1 derivative of convolutions\n")
    done = ebb("apply", "step.ebb", "step.plan", "-o", "split.ebb", "--json")
    assert done.stderr == "Applied 1 decision: 7 nodes compute the same; added: 1 split\n"
    assert json.loads(done.stdout)["splits"] == 1
    assert "= aten::convolution_backward(%g, none, %w) {output_mask = [true, false, false]} after gw" in (
        tmp_path / "split.ebb"
    ).read_text()
    assert ebb("verify", "step.ebb", "split.ebb").returncode == 0
    done = plan(ebb, "--budget", "600B", "--no-split")
    assert done.returncode == 4
    assert "splitting calls, which --no-split forbids" in done.stderr
    assert "the least budget found is 900B" in done.stderr


def test_a_gradient_of_a_split_call_is_explained(ebb, step, tmp_path):
    (tmp_path / "step.ebb").write_text(CONVOLUTION)
    done = plan(ebb, "--budget", "600B", "--explain", "gw")
    assert done.stdout == "%gw: 100 B, made by 'gw'\n  kept: a parameter, a constant, or returned by the step\n"


def test_a_sweep_is_a_table_and_never_slower_with_more(ebb, step):
    done = plan(ebb, "--sweep", "100%,500B,600B,700B")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["budget", "500", "600", "700", "900"]
    points = json.loads(plan(ebb, "--sweep", "100%,500B,600B,700B", "--json").stdout)["points"]
    assert [point["feasible"] for point in points] == [False, True, True, True]
    times = [point["step_seconds"] for point in points[1:]]
    assert times == sorted(times, reverse=True)


def test_a_tensor_is_explained(ebb, step):
    done = plan(ebb, "--budget", "700B", "--explain", "a")
    assert done.stdout == (
        "%a: 300 B, made by 'a'\n"
        "  from 'b' to 'r': swapped\n"
        "    kept instead: 900 B at 'c', 200 B over the budget\n"
        "    computed again instead: 1.9 us, 100 ns longer\n"
    )
    assert "kept" in plan(ebb, "--budget", "700B", "--explain", "%r").stdout
    for budget in ("700B", "1B"):  # a plan, and none
        done = plan(ebb, "--budget", budget, "--explain", "aa")
        assert done.returncode == 2
        assert done.stderr == "ebb: step.ebb: there is no tensor %aa\n"


def test_what_offsets_have_no_room_for_is_no_choice(ebb):
    args = ["--budget", "45%", "--no-recompute", "--evaluations", "300", "--explain", "relu"]
    explained = ebb("plan", EXAMPLES / "resnet.ebb", *args).stdout
    assert re.search(r"kept instead: .* over the [0-9.]+ MiB for which offsets fit\n", explained), explained


def test_a_trace_shows_copies_beside_computation(ebb, step, tmp_path):
    assert plan(ebb, "--budget", "700B", "--trace", "trace.json").returncode == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert {"a", "a.host", "a.back", "r"} <= names


@pytest.mark.parametrize("budget", ["0B", "-1GiB", "lots", "0%", "-5%", "%", "16", "99999999999GiB"])
def test_absurd_budgets_are_wrong_usage(ebb, step, budget):
    done = plan(ebb, f"--budget={budget}")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("ebb: ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give --budget"),
        (["--budget", "60%", "--sweep", "60%"], "give one"),
        (["--budget", "60%", "-o", "step.ebb"], "'step.ebb' would be overwritten"),
        (["--budget", "60%", "--trace", "./step.ebb"], "'./step.ebb' would be overwritten"),
        (["--budget", "60%", "--model", "table.json", "-o", "table.json"], "'table.json' would be overwritten"),
        (["--budget", "60%", "-o", "a", "--trace", "./a"], "would be one file"),
        (["--budget", "60%", "-o", "step.safetensors"], "'step.safetensors' is called as the state of a step is"),
        (["--budget", "60%", "--trace", "step.safetensors"], "name another file"),
        (["--budget", "60%", "--seed", "-1"], "--seed"),
        (["--budget", "60%", "--seed", "99999999999999999999999"], "--seed"),
        (["--budget", "60%", "--no-swap", "--no-recompute"], "leave nothing to plan with"),
        (["--budget", "60%", "--json", "-o", "-"], "want standard output"),
        (["--sweep", "60%,,40%"], "the budget '' cannot be read"),
        (["--sweep", "60%,"], "the budget '' cannot be read"),
        (["--sweep", "60%", "-o", "x.plan"], "take one of its budgets"),
        (["--budget", "60%", "--model", "h2000"], "h200"),
        (["--budget", "60%", "--host-budget", "some"], "--host-budget"),
        (["--budget", "60%", "--time-limit", "1"], "--time-limit"),
    ],
)
def test_wrong_usage_is_said(ebb, step, options, said):
    done = ebb("plan", step, *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_trace_that_cannot_be_written_leaves_no_plan(ebb, step, tmp_path):
    before = sorted(tmp_path.iterdir())
    done = plan(ebb, "--budget", "600B", "-o", "step.plan", "--trace", "no/such/folder/trace.json")
    assert done.returncode == 3
    assert done.stderr.startswith("ebb: cannot write no/such/folder/trace.json: ")
    assert sorted(tmp_path.iterdir()) == before


def test_unknown_sizes_are_named(ebb, tmp_path):
    (tmp_path / "step.ebb").write_text(STEP.replace("%c: f32[75]", "%c: f32[?]"))
    (tmp_path / "table.json").write_text(DEVICE)
    done = plan(ebb, "--budget", "60%")
    assert done.returncode == 3
    assert "%c" in done.stderr


def test_a_rewritten_graph_is_not_planned_again(ebb, step):
    assert plan(ebb, "--budget", "600B", "-o", "step.plan").returncode == 0
    assert ebb("apply", step, "step.plan", "-o", "rewritten.ebb").returncode == 0
    done = ebb("plan", "rewritten.ebb", "--budget", "60%")
    assert done.returncode == 3
    assert "a plan is made for the original graph" in done.stderr


def test_a_plan_for_another_graph_is_refused(ebb, step, tmp_path):
    assert plan(ebb, "--budget", "700B", "-o", "step.plan").returncode == 0
    (tmp_path / "other.ebb").write_text(STEP.replace("400ns", "401ns"))
    done = ebb("apply", "other.ebb", "step.plan", "-o", "out.ebb")
    assert done.returncode == 3
    assert "made for another graph" in done.stderr


def test_a_profile_that_has_not_all_is_noted(ebb, step, tmp_path):
    (tmp_path / "part.json").write_text(
        '{"version": 1, "device": "cpu", "operations": '
        '[{"signature": "my::f(f32[75]) -> f32[75]", "seconds": 4e-07, "workspace": 0}]}'
    )
    done = plan(ebb, "--budget", "700B", "--profile", "part.json")
    assert "Note: the profile has 2 of 6 operations" in done.stderr
    assert "Note: the profile was measured on 'cpu', and the device is 'table'" in done.stderr


def test_a_profile_of_another_step_is_refused(ebb, step, tmp_path):
    (tmp_path / "other.json").write_text(
        '{"version": 1, "device": "table", "operations": '
        '[{"signature": "my::h(f32[1]) -> f32[1]", "seconds": 1e-06, "workspace": 0}]}'
    )
    done = plan(ebb, "--budget", "700B", "--profile", "other.json")
    assert done.returncode == 3
    assert "the profile has none of the graph's operations" in done.stderr
