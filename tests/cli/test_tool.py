"""The tool's promises: what it prints where, its exit statuses, and that it writes whole files."""

import json
import os
import pathlib
import subprocess

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"

GOOD = """graph g {
  input %x: f32[4]
  %a: f32[4] = aten::relu(%x)
  return %a
}
"""
STALE = """graph g {
  param %w: f32[4]
  %w.1: f32[4] ~ %w = aten::zero_(%w!)
  %y: f32[4] = aten::relu(%w)
  return %y
}
"""


def lines(text):
    return text.splitlines()


def test_without_a_command_it_says_how_to_go_on(ebb):
    done = ebb()
    assert done.returncode == 2
    assert done.stdout == ""
    assert "--help" in done.stderr


@pytest.mark.parametrize("command", ["show", "verify", "convert", "rewrite", "apply", "tune", "simulate"])
def test_help_has_examples(ebb, command):
    done = ebb(command, "--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    assert f"ebb {command}" in done.stdout


def test_help_lists_the_commands_and_the_exit_statuses(ebb):
    done = ebb("--help")
    assert done.returncode == 0
    for word in ("show", "verify", "convert", "rewrite", "apply", "tune", "simulate", "Exit status: 0 done"):
        assert word in done.stdout


def test_version(ebb):
    assert ebb("--version").stdout == "0.1.0\n"


@pytest.mark.parametrize(
    "args",
    [
        ["frobnicate"],
        ["show"],
        ["show", "-", "--nonsense"],
        ["show", "-", "--json", "--dot"],
        ["convert", "-"],
        ["convert", "-", "out.ebb", "--to", "xml"],
        ["convert", "-", "out.unknown"],
        ["convert", "-", "-", "--json"],
        ["verify", "-", "-"],
        ["verify", "-", "--allow-lossy"],
    ],
)
def test_wrong_usage_is_status_2(ebb, args, tmp_path):
    done = ebb(*args, stdin=GOOD)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("ebb: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["verify", "x.ebb", ""], "there is nothing in the argument after 'x.ebb'"),
        (["plan", "-", "--budget", "60%", "-o", ""], "there is nothing in the argument after '-o'"),
        (["simulate", "-", "--trace="], "there is nothing after '--trace='"),
        (["run", "x.ebb", "--state", ""], "there is nothing in the argument after '--state'"),
        ([""], "there is nothing in the argument after 'ebb'"),
    ],
)
def test_an_empty_argument_is_not_one_that_is_missing(ebb, args, said):
    done = ebb(*args, stdin=GOOD)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ebb: {said}\nebb: 'ebb --help' tells more\n"


@pytest.mark.parametrize(
    ("args", "said", "told"),
    [
        (["bogus"], "there is no command 'bogus'", "ebb"),
        (["shwo", "x"], "there is no command 'shwo'; did you mean 'show'?", "ebb"),
        (["rum", "x", "--budget", "3"], "there is no command 'rum'; did you mean 'run'?", "ebb"),
        (["--hlep"], "ebb has no option '--hlep'; did you mean '--help'?", "ebb"),
        (["show", "x", "--jsno"], "ebb show has no option '--jsno'; did you mean '--json'?", "ebb show"),
        (["show", "--jsno"], "ebb show has no option '--jsno'; did you mean '--json'?", "ebb show"),
        (["plan", "x", "--bugdet", "3"], "ebb plan has no option '--bugdet'; did you mean '--budget'?", "ebb plan"),
        (["plan", "x", "--bugdet=3"], "ebb plan has no option '--bugdet'; did you mean '--budget'?", "ebb plan"),
        (["show", "x", "--frobnicate"], "ebb show has no option '--frobnicate'", "ebb show"),
        (["show", "x", "y"], "ebb show has no use for 'y'", "ebb show"),
    ],
)
def test_a_mistyped_word_is_named_and_the_nearest_one(ebb, args, said, told):
    done = ebb(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ebb: {said}\nebb: '{told} --help' tells more\n"


def test_an_option_without_its_value_and_one_that_is_given_twice_are_named(ebb):
    said = ebb("plan", "x.ebb", "--budget").stderr
    assert said.startswith("ebb: --budget needs a value: --budget SIZE|PERCENT"), said
    said = ebb("plan", "x.ebb", "--budget", "3GiB", "--budget", "4GiB").stderr
    assert said.startswith("ebb: give --budget only once\n"), said


def test_what_is_required_is_asked_for_where_nothing_is_mistyped(ebb):
    assert ebb("show").stderr.startswith("ebb: IN is required\n")


@pytest.mark.parametrize("command", [["show"], ["verify"], ["convert", "OUT"]])
def test_the_tensors_of_a_step_are_not_its_graph(ebb, tmp_path, command):
    (tmp_path / "step.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    done = ebb(command[0], "step.safetensors", *["out.ebb" for _ in command[1:]])
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "ebb: step.safetensors has the tensors of a step and not its graph; give step.ebb, which is "
        "written beside it\n"
    )


def test_a_missing_file_is_status_3(ebb):
    done = ebb("show", "nowhere.ebb")
    assert done.returncode == 3
    assert done.stderr == "ebb: cannot read nowhere.ebb: No such file or directory\n"


BAD_INPUTS = {
    "empty": b"",
    "not UTF-8": b"graph \xff {\n",
    "truncated": GOOD[:40].encode(),
    "duplicate": GOOD.replace("%a: f32[4] =", "%x: f32[4] =").encode(),
    "cyclic": b"graph g {\n  %a: f32[4] = f(%b)\n  %b: f32[4] = f(%a)\n  return %a\n}\n",
    "mistyped": GOOD.replace("f32", "f31").encode(),
    "hugely sized": GOOD.replace("[4]", "[4294967296,2147483648]").encode(),
    "deeply nested": GOOD.replace("(%x)", "(" + "[" * 100_000 + ")").encode(),
    "a binary": bytes(range(256)) * 16,
    "null bytes": b"\0" * 1000,
    "one endless line": b"graph g {" + b" " * 1_000_000,
}


@pytest.mark.parametrize("kind", BAD_INPUTS)
@pytest.mark.parametrize("command", [["show"], ["verify"], ["convert", "OUT"]])
def test_bad_input_is_status_3_and_one_clear_line(ebb, tmp_path, kind, command):
    (tmp_path / "bad.ebb").write_bytes(BAD_INPUTS[kind])
    args = [command[0], "bad.ebb", *["out.ebb" for _ in command[1:]]]
    done = ebb(*args)
    assert done.returncode == 3
    assert done.stdout == ""
    assert len(lines(done.stderr)) == 1
    assert done.stderr.startswith("ebb: bad.ebb:")
    assert len(done.stderr) < 400
    assert [path.name for path in tmp_path.iterdir()] == ["bad.ebb"]


def test_errors_name_line_and_column(ebb):
    done = ebb("verify", "-", stdin=GOOD.replace("(%x)", "(%y)"))
    assert done.returncode == 3
    assert done.stderr == "ebb: standard input:3:28: P24: there is no tensor 'y' in this graph\n"


def test_verify_says_yes(ebb):
    done = ebb("verify", "-", stdin=GOOD)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "standard input: valid: 2 nodes, all 21 invariants hold\n"


def test_verify_says_no_with_status_5(ebb):
    done = ebb("verify", "-", stdin=STALE)
    assert done.returncode == 5
    assert done.stdout == ""
    assert done.stderr == (
        "ebb: standard input:4: V16: 'y' reads %w, which 'w.1' has overwritten by then; "
        "read what 'w.1' makes, or move 'y' above it\n"
    )


def test_verify_json(ebb):
    assert json.loads(ebb("verify", "-", "--json", stdin=GOOD).stdout) == {
        "valid": True,
        "nodes": 2,
        "implicit_copies": 0,
        "violations": [],
    }
    done = ebb("verify", "-", "--json", stdin=STALE)
    report = json.loads(done.stdout)
    assert done.returncode == 5
    assert report["valid"] is False
    assert [(v["code"], v["line"], v["node"]) for v in report["violations"]] == [("V16", 4, "y")]


def test_verify_notes_implicit_copies(ebb):
    done = ebb("verify", "-", stdin=GOOD.replace("%x: f32[4]", "%x: f32[4] @host"))
    assert done.returncode == 0
    assert done.stderr == (
        "ebb: standard input:3: note: 'a' reads %x, which is on the host; it is copied on the spot\n"
    )


SWAPPED = """graph g {
  input %x: f32[4]
  %a: f32[4] = aten::relu(%x)
  %a.host: f32[4] @host = ebb::swap_out(%a)
  %a.back: f32[4] = ebb::swap_in(%a.host)
  %b: f32[4] = aten::mul(%a, %a.back)
  return %b
}
"""
PLAIN = """graph g {
  input %x: f32[4]
  %a: f32[4] = aten::relu(%x)
  %b: f32[4] = aten::mul(%a, %a)
  return %b
}
"""


@pytest.fixture
def pair(tmp_path):
    (tmp_path / "plain.ebb").write_text(PLAIN)
    (tmp_path / "swapped.ebb").write_text(SWAPPED)


def test_verify_proves_two_graphs_the_same(ebb, pair):
    done = ebb("verify", "plain.ebb", "swapped.ebb")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "swapped.ebb: the same computation as plain.ebb: "
        "3 nodes compute the same; added: 1 swap-out, 1 swap-in\n"
    )


def test_verify_says_where_two_graphs_differ(ebb, pair):
    done = ebb("verify", "plain.ebb", "-", stdin=SWAPPED.replace("(%a, %a.back)", "(%x, %a.back)"))
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == (
        "ebb: standard input:6: S04: 'b' reads %x where the original reads %a: "
        "'%b: f32[4] = aten::mul(%a, %a)' became '%b: f32[4] = aten::mul(%x, %a.back)'\n"
    )


def test_verify_names_the_original_where_something_is_missing(ebb, pair):
    done = ebb("verify", "swapped.ebb", "plain.ebb")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == (
        "ebb: swapped.ebb:4: S01: the rewritten graph has no 'a.host', which the original has: "
        "'%a.host: f32[4] @host = ebb::swap_out(%a)'\n"
    )


def test_verify_of_two_checks_both(ebb, pair):
    done = ebb("verify", "-", "plain.ebb", stdin=STALE)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("ebb: standard input:4: V16: the original is wrong by itself: 'y'")
    done = ebb("verify", "plain.ebb", "-", stdin=STALE)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith(
        "ebb: standard input:4: V16: the rewritten graph is wrong by itself: 'y'"
    )


def test_verify_of_two_allows_lossy_codecs_when_asked(ebb, pair):
    text = SWAPPED.replace(
        "  %a.host: f32[4] @host = ebb::swap_out(%a)",
        '  %z: bf16[4] = ebb::encode(%a) {codec = "bf16"}\n'
        "  %a.host: bf16[4] @host = ebb::swap_out(%z)",
    ).replace(
        "  %a.back: f32[4] = ebb::swap_in(%a.host)",
        "  %z.back: bf16[4] = ebb::swap_in(%a.host)\n"
        '  %a.back: f32[4] = ebb::decode(%z.back) {codec = "bf16"}',
    )
    done = ebb("verify", "plain.ebb", "-", stdin=text)
    assert done.returncode == 5
    assert ": S06: 'z' encodes %a by 'bf16', which may not give back every bit" in done.stderr
    done = ebb("verify", "plain.ebb", "-", "--allow-lossy", stdin=text)
    assert (done.returncode, done.stderr) == (0, "")


def test_verify_of_two_in_json(ebb, pair):
    assert json.loads(ebb("verify", "plain.ebb", "swapped.ebb", "--json").stdout) == {
        "same": True,
        "nodes": 3,
        "added": {
            "swap_outs": 1, "swap_ins": 1, "encodes": 0, "decodes": 0,
            "snapshots": 0, "clones": 0, "splits": 0, "control_edges": 0,
        },
        "difference": None,
    }
    done = ebb("verify", "swapped.ebb", "plain.ebb", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 5
    assert (report["same"], report["nodes"], report["added"]) == (False, None, None)
    difference = report["difference"]
    assert (difference["code"], difference["original_line"], difference["line"]) == ("S01", 4, None)
    assert difference["message"] in done.stderr


@pytest.mark.parametrize("command", [["show", "-"], ["convert", "-", "out.ebb"]])
def test_other_commands_refuse_what_verify_refuses(ebb, tmp_path, command):
    done = ebb(*command, stdin=STALE)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "V16" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_show_explains_the_example(ebb):
    done = ebb("show", EXAMPLES / "tiny.ebb")
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "8 operations, 1 parameter, 1 input, 1 runtime scalar",
        "Device memory from the first operation to the last: peak 2.8 MiB",
        "At the peak, while 'gw' runs:",
        "Floor: 1.9 MiB, what 'gw' needs by itself",
    ):
        assert words in done.stdout


def test_show_json_agrees_with_the_text(ebb):
    report = json.loads(ebb("show", EXAMPLES / "tiny.ebb", "--json").stdout)
    # x 100352 + w 802816 + gw 802816 + gx 100352 + gh 32768 + s 4 + the workspace's 1 MiB
    assert report["peak_bytes"] == 2887684
    assert report["peak_node"] == "gw"
    assert report["floor_bytes"] == 100352 + 32768 + 802816 + (1 << 20)
    assert sum(report["at_peak"].values()) == report["peak_bytes"]
    assert max(report["device_curve"]) == report["peak_bytes"]


def test_show_lines_has_one_row_a_node(ebb):
    done = ebb("show", "-", "--lines", stdin=GOOD)
    assert lines(done.stdout) == [
        " line      γ      memory  node",
        "    1      0        16 B  input %x: f32[4]",
        "    2      1        32 B  %a: f32[4] = aten::relu(%x)",
    ]


def test_show_dot_is_what_convert_writes(ebb, tmp_path):
    shown = ebb("show", "-", "--dot", stdin=GOOD).stdout
    assert ebb("convert", "-", "out.dot", stdin=GOOD).returncode == 0
    assert (tmp_path / "out.dot").read_text() == shown
    assert shown.startswith('digraph "g" {')


def test_convert_writes_canonical_text(ebb, tmp_path):
    messy = "# comment\n" + GOOD.replace("  %a: f32[4] = ", "%a:f32[ 4 ]=")
    done = ebb("convert", "-", "-", stdin=messy)
    assert (done.returncode, done.stdout, done.stderr) == (0, GOOD, "")
    done = ebb("convert", "-", "out.ebb", stdin=messy)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "out.ebb").read_text() == GOOD


def test_convert_json_says_what_was_done(ebb):
    done = ebb("convert", "-", "out.txt", "--to", "ebb", "--json", stdin=GOOD)
    assert json.loads(done.stdout) == {
        "output": "out.txt",
        "format": "ebb",
        "nodes": 2,
        "bytes": len(GOOD),
    }


def test_a_failed_conversion_leaves_the_old_file(ebb, tmp_path):
    (tmp_path / "out.ebb").write_text("precious")
    assert ebb("convert", "-", "out.ebb", stdin="nonsense").returncode == 3
    assert (tmp_path / "out.ebb").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_that_cannot_be_written_is_named(ebb):
    done = ebb("convert", "-", "no/such/folder/out.ebb", stdin=GOOD)
    assert done.returncode == 3
    assert done.stderr.startswith("ebb: cannot write no/such/folder/out.ebb: ")


def test_a_full_disk_is_an_error_not_a_success(ebb):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    done = ebb("convert", "-", "/dev/full", "--to", "ebb", stdin=GOOD)
    assert done.returncode == 3
    assert "No space left" in done.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ebb")), ids=lambda path: path.name)
def test_examples_are_valid_and_canonical(ebb, path):
    assert ebb("verify", path).returncode == 0
    assert ebb("convert", path, "-").stdout == path.read_text()
    report = json.loads(ebb("show", path, "--json").stdout)
    assert 0 < report["floor_bytes"] <= report["peak_bytes"]
    assert report["unknown_sizes"] == 0


def test_output_is_the_same_in_every_run(ebb):
    path = EXAMPLES / "resnet.ebb"
    first = [ebb(*args).stdout for args in (["show", path], ["show", path, "--json"])]
    for _ in range(5):
        assert [ebb(*args).stdout for args in (["show", path], ["show", path, "--json"])] == first


def test_progress_is_silent_where_there_is_no_terminal(ebb):
    assert ebb("show", EXAMPLES / "resnet.ebb").stderr == ""


def test_who_waits_at_a_terminal_is_told_what_for():
    """Standard input keeps the tool waiting until it has said so."""
    terminal, end = os.openpty()
    tool = subprocess.Popen([os.environ["EBB_TOOL"], "show", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=end)
    os.close(end)
    said = b""
    while b"reading" not in said:
        said += os.read(terminal, 1000)
    assert said == "\r\033[Kebb: reading … 2 s".encode()
    out, _ = tool.communicate((EXAMPLES / "resnet.ebb").read_bytes(), timeout=60)
    assert tool.returncode == 0 and out
    said = os.read(terminal, 1000)
    assert said.endswith(b"\r\033[K")  # the line is wiped
    os.close(terminal)


def test_a_reader_that_goes_away_is_no_crash():
    tool = os.environ["EBB_TOOL"]
    done = subprocess.run(
        f"'{tool}' show '{EXAMPLES / 'resnet.ebb'}' --lines | head -n 1",
        shell=True, capture_output=True, text=True, timeout=60, check=False,
    )
    assert done.returncode == 0
    assert len(lines(done.stdout)) == 1
