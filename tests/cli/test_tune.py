"""`ebb tune`: the trials it makes, what it recommends, and how it refuses."""

import ast
import json
import pathlib
import re
import shlex

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

# Every tensor has 1000 bytes, every operation takes 2 us, and every copy 1 us.
STEP = """graph step {
  input %x: f32[250]
  %a: f32[250] = my::f(%x) takes 2us
  %b: f32[250] = my::f(%a) takes 2us
  %c: f32[250] = my::f(%b) takes 2us
  %d: f32[250] = my::f(%c) takes 2us
  %gradients/d: f32[250] = my::df(%d) takes 2us
  %gradients/c: f32[250] = my::df(%gradients/d, %c) takes 2us
  %gradients/b: f32[250] = my::df(%gradients/c, %b) takes 2us
  %gradients/a: f32[250] = my::df(%gradients/b, %a) takes 2us
  return %gradients/a
}
"""
SLOW = """{"name": "slow", "memory": "1GB", "memory_bandwidth": "1GB/s", "flops": {"f32": "1GFLOP/s"},
 "link": {"to_host": "1GB/s", "to_device": "1GB/s"}}
"""
TABLE = """Budget: 2.9 KiB; the step as it is: 4.9 KiB at 'gradients/d', 16.0 us

n_tensors  lb  strategy      branches  swapped        peak        step  slow-down  fits
       -1   1  chain_rule    no              3     2.9 KiB     19.0 us      1.19x  yes
       -1   1  chain_rule    yes             3     2.9 KiB     19.0 us      1.19x  yes
       -1   1  direct_order  no              3     2.9 KiB     19.0 us      1.19x  yes
       -1   1  direct_order  yes             3     2.9 KiB     19.0 us      1.19x  yes
       -1   2  chain_rule    no              2     3.9 KiB     16.0 us      1.00x  no
        1   1  chain_rule    no              1     3.9 KiB     17.0 us      1.06x  no
        2   1  chain_rule    no              2     2.9 KiB     18.0 us      1.12x  yes

Recommended: 18.0 us a step (1.12x), peak 2.9 KiB
  ebb rewrite  --n-tensors 2 --lb 1
  Python       LMS(n_tensors=2, lb=1)
"""


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.ebb"
    path.write_text(STEP)
    (tmp_path / "slow.json").write_text(SLOW)
    return path


def test_tune_prints_a_line_a_trial_and_recommends_the_fastest_that_fits(ebb, step, tmp_path):
    done = ebb("tune", step, "--budget", "60%", "--model", "slow.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == TABLE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["slow.json", "step.ebb"]


def test_tune_reads_standard_input(ebb, step):
    assert ebb("tune", "-", "--budget", "3000B", "--model", "slow.json", stdin=STEP).stdout == TABLE


def test_tune_json_has_the_promised_fields(ebb, step):
    said = json.loads(ebb("tune", step, "--budget", "3KB", "--model", "slow.json", "--json").stdout)
    trials = said.pop("trials")
    best = {
        "n_tensors": 2,
        "lb": 1,
        "ctrld_strategy": "chain_rule",
        "swap_branches": False,
        "tensors_swapped": 2,
        "bytes_swapped": 2000,
        "peak_bytes": 3000,
        "peak_node": "gradients/d",
        "host_bytes": 2000,
        "step_seconds": 18e-6,
        "fits": True,
    }
    assert said == {
        "budget_bytes": 3000,
        "unconstrained_bytes": 5000,
        "unconstrained_seconds": 16e-6,
        "recommended": {**best, "arguments": "--n-tensors 2 --lb 1", "python": "LMS(n_tensors=2, lb=1)"},
    }
    assert len(trials) == 7
    assert trials[6] == best


def test_the_graph_is_written_as_rewrite_writes_it_with_what_is_recommended(ebb, tmp_path):
    done = ebb("tune", EXAMPLES / "resnet.ebb", "--budget", "60%", "-o", "tuned.ebb", "--json",
               "--optimizer-scopes", "gradients", "--fuse-swapins")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Swapped: ")
    best = json.loads(done.stdout)["recommended"]
    arguments = shlex.split(best["arguments"])
    assert {"--optimizer-scopes", "--fuse-swapins"} <= set(arguments)
    said = json.loads(ebb("rewrite", EXAMPLES / "resnet.ebb", "-o", "again.ebb", "--json", *arguments).stdout)
    assert (tmp_path / "tuned.ebb").read_text() == (tmp_path / "again.ebb").read_text()
    assert said["peak_bytes_after"] == best["peak_bytes"] <= json.loads(done.stdout)["budget_bytes"]
    assert said["tensors_swapped"] == best["tensors_swapped"]
    assert ebb("verify", EXAMPLES / "resnet.ebb", "tuned.ebb").returncode == 0


def test_a_file_of_tensorflows_is_tuned_and_written(ebb, tmp_path):
    graph = pathlib.Path(__file__).parent / "training.pbtxt"
    done = ebb("tune", graph, "--budget", "100%", "-o", "tuned.pb")
    assert done.returncode == 0, done.stderr
    assert ebb("verify", graph, "tuned.pb").returncode == 0


def test_a_step_that_fits_is_left_alone(ebb, step):
    done = ebb("tune", step, "--budget", "150%", "--model", "slow.json", "--json")
    said = json.loads(done.stdout)
    assert len(said["trials"]) == 1
    assert said["recommended"]["arguments"] == "--n-tensors 0 --lb 1"
    assert said["recommended"]["step_seconds"] == said["unconstrained_seconds"]


def test_where_nothing_fits_the_status_is_4_with_the_least_peak_and_the_remedy(ebb, step, tmp_path):
    done = ebb("tune", step, "--budget", "2999B", "--model", "slow.json", "-o", "out.ebb")
    assert done.returncode == 4
    assert done.stdout.endswith("\nNothing that was tried fits.\n")
    assert done.stderr == (
        "ebb: nothing that was tried fits in 2.9 KiB: the least peak is 2.9 KiB (3000B), at "
        "'gradients/c', with --n-tensors -1 --lb 1; 'gradients/c' alone needs 2.9 KiB: take a "
        "smaller batch, or more memory\n"
    )
    assert not (tmp_path / "out.ebb").exists()
    done = ebb("tune", EXAMPLES / "resnet.ebb", "--budget", "30%", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["recommended"] is None
    assert "try 'ebb plan', which computes tensors again as well" in done.stderr


def test_a_profile_goes_before_the_text(ebb, step, tmp_path):
    signature = "my::f(f32[250]) -> f32[250]"
    (tmp_path / "profile.json").write_text(json.dumps({
        "version": 1, "device": "slow",
        "operations": [{"signature": signature, "seconds": 10e-6, "workspace": 2000}],
    }))
    options = ["--budget", "100%", "--model", "slow.json", "--json"]
    said = json.loads(ebb("tune", step, *options, "--profile", "profile.json").stdout)
    assert said["unconstrained_seconds"] == pytest.approx(4 * 10e-6 + 4 * 2e-6)
    # 'd' has a, b, c, itself and a workspace; 'gradients/d' has five tensors, and none.
    assert said["unconstrained_bytes"] == 4 * 1000 + 2000
    done = ebb("tune", EXAMPLES / "mlp.ebb", *options, "--profile", "profile.json")
    assert done.returncode == 3
    assert "the profile has none of the graph's operations" in done.stderr


def test_operations_that_the_model_does_not_know_are_named(ebb, step):
    done = ebb("tune", "-", "--budget", "4KB", stdin=STEP.replace(" takes 2us", ""))
    assert done.returncode == 0
    assert done.stderr == (
        "Note: 8 operations are taken to read and write their tensors once, as the model knows no "
        "more: my::df (4), my::f (4)\n"
    )


WRONG = [
    ([], "--budget is required"),
    (["--budget", "0B"], "the budget '0B' is nothing"),
    (["--budget", "-60%"], "the budget '-60%' is negative"),
    (["--budget", "16"], "the budget '16' has no unit"),
    (["--budget", "much"], "write one like 16GiB, 1.5GB or 60%"),
    (["--budget", "2000000TiB"], "is more than any machine has"),
    (["--budget", "60%", "--model", "h20"], "did you mean 'h200'?"),
    (["--budget", "60%", "--optimizer-scopes", "adam"], "no operation is under 'adam'"),
    (["--budget", "60%", "--lb", "3"], "--lb"),
    (["--budget", "60%", "-o", "-"], "name a file"),
    (["--budget", "60%", "--to", "ebb"], "--to requires --output"),
    (["--budget", "60%", "--host", "/device:CPU:0"], "--host is for what is written"),
    (["--budget", "60%", "--accelerator", "/device:GPU:0"], "--accelerator is for TensorFlow's files"),
]


@pytest.mark.parametrize("options, message", WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_options_are_wrong_usage(ebb, step, options, message):
    done = ebb("tune", step, *options)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr


def test_bad_files_are_named(ebb, step, tmp_path):
    (tmp_path / "bad.json").write_text("{oops")
    for options in (["--model", "bad.json"], ["--model", "slow.json", "--profile", "bad.json"]):
        done = ebb("tune", step, "--budget", "60%", *options)
        assert done.returncode == 3
        assert done.stderr.startswith("ebb: bad.json:1:"), done.stderr
    done = ebb("tune", step, "--budget", "60%", "--profile", "nowhere.json")
    assert done.returncode == 3
    assert "nowhere.json" in done.stderr


def test_unknown_sizes_are_named(ebb):
    unknown = STEP.replace("%b: f32[250]", "%b: f32[?]")
    for text in (unknown, unknown.replace(" takes 2us", "")):
        done = ebb("tune", "-", "--budget", "60%", stdin=text)
        assert done.returncode == 3
        assert done.stderr.startswith("ebb: standard input: how large %b is, is not known (f32[?])")


def test_one_standard_input_is_not_both_the_graph_and_the_profile(ebb):
    done = ebb("tune", "-", "--budget", "60%", "--profile", "-", stdin=STEP)
    assert done.returncode == 2
    assert "not both" in done.stderr


@pytest.mark.parametrize("model, percent", [("resnet", 60), ("unet", 70), ("transformer", 90)])
def test_the_examples_are_tuned_the_same_way_every_time(ebb, model, percent):
    seen = {ebb("tune", EXAMPLES / f"{model}.ebb", "--budget", f"{percent}%", "--json").stdout for _ in range(3)}
    assert len(seen) == 1
    said = json.loads(seen.pop())
    assert len(said["trials"]) <= 40
    fitting = [trial for trial in said["trials"] if trial["fits"]]
    assert said["recommended"]["step_seconds"] == min(trial["step_seconds"] for trial in fitting)
    assert all(trial["fits"] == (trial["peak_bytes"] <= said["budget_bytes"]) for trial in said["trials"])


def test_the_python_call_has_parameters_of_lms(ebb, step):
    done = ebb(
        "tune", step, "--budget", "80%", "--model", "slow.json", "--json", "--optimizer-scopes", "gradients",
        "--starting-op-names", "a", "--excl-types", "df", "--incl-types", "my::f", "--ub", "99", "--fuse-swapins",
        "--fuse-distance", "9", "--whole-graph", "--alpha", "3", "--min-bytes", "4B", "--sync", "1",
    )
    assert done.returncode == 0, done.stderr
    call = ast.parse(json.loads(done.stdout)["recommended"]["python"], mode="eval").body
    source = ast.parse((ROOT / "python/ebb/tensorflow/_lms.py").read_text())
    (lms,) = [node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "LMS"]
    (init,) = [node for node in lms.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    known = {argument.arg for argument in init.args.args + init.args.kwonlyargs}
    given = {keyword.arg for keyword in call.keywords}
    assert len(given) >= 11
    assert given <= known


def test_the_guide_shows_what_the_tool_prints(ebb):
    ((command, said),) = re.findall(
        r"^```\n\$ (ebb tune .*)\n(.*?)^```", (ROOT / "docs/planning.md").read_text(), re.MULTILINE | re.DOTALL)
    arguments = command.replace("examples/", f"{EXAMPLES}/").split()[1:]
    assert ebb(*arguments).stdout == said


def test_every_json_field_is_documented(ebb, step):
    said = json.loads(ebb("tune", step, "--budget", "60%", "--json").stdout)
    text = (ROOT / "docs/command-line.md").read_text()
    section = text[text.index("## `ebb tune"):text.index("## `ebb run")]
    for field in [*said, *said["recommended"]]:
        assert re.search(rf"\b{field}\b", section), field
