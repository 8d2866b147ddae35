"""Files that are none of TensorFlow's, or broken: status 3, one line that names the file and the node, nothing half written."""

import pathlib

import pytest

TRAINING = (pathlib.Path(__file__).parent / "training.pbtxt").read_text()
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
SOFTPLUS = '  name: "b"\n  op: "Softplus"\n  input: "a"\n'
FLOAT = '  attr {\n    key: "T"\n    value {\n      type: DT_FLOAT\n    }\n  }\n'
BINARY = b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder"

LOOP = f"""node {{
  name: "enter"
  op: "Enter"
  input: "a"
{FLOAT}  attr {{
    key: "frame_name"
    value {{
      s: "loop"
    }}
  }}
}}
node {{
  name: "both"
  op: "AddV2"
  input: "enter"
  input: "b"
{FLOAT}}}
"""


def changed(before, after):
    assert TRAINING.count(before) == 1
    return TRAINING.replace(before, after)


BROKEN_GRAPHS = {
    "a cycle": (changed(SOFTPLUS, SOFTPLUS.replace('"a"', '"c"')), "G05: these nodes wait for each other: 'b', 'c'"),
    "a node that waits for itself": (
        changed(SOFTPLUS, SOFTPLUS + '  input: "^b"\n'), "G05: these nodes wait for each other: 'b'"),
    "a missing input": (changed(SOFTPLUS, SOFTPLUS.replace('"a"', '"relu"')), "G04: node 'b' reads 'relu', which is not in"),
    "a missing control input": (changed(SOFTPLUS, SOFTPLUS + '  input: "^relu"\n'), "G04: node 'b' reads 'relu', which is not in"),
    "a result that is not there": (changed(SOFTPLUS, SOFTPLUS.replace('"a"', '"a:1"')), "G04: node 'b' reads 'a:1'"),
    "one name for two": (changed('  name: "c"\n', '  name: "b"\n'), "G03: two nodes are called 'b'"),
    "no name": (changed('  name: "c"\n', ""), "G02: node 6 has no name"),
    "no operator": (changed('  op: "Softplus"\n', ""), "G02: node 'b' has no operator"),
    "too many inputs": (changed(SOFTPLUS, SOFTPLUS + '  input: "h"\n'), "G09: node 'b' has 2 inputs"),
    "a type that is not said": (changed(SOFTPLUS + FLOAT, SOFTPLUS), "G07: node 'b' lacks the attribute T"),
    "loops that are not entered": (changed("versions {", LOOP + "versions {"), "G06: node 'both' reads from the loop 'loop'"),
}


def commands(name):
    return [
        ["show", name],
        ["verify", name],
        ["verify", "good.pb", name],
        ["verify", name, "good.pb"],
        ["rewrite", name, "-o", "out.pb", "--save-plan", "out.plan"],
        ["apply", name, "good.plan", "-o", "out.pb"],
        ["convert", name, "out.ebb"],
        ["convert", name, "out.dot"],
    ]


@pytest.fixture
def folder(ebb, tmp_path):
    (tmp_path / "good.pbtxt").write_text(TRAINING)
    ebb("rewrite", "good.pbtxt", "-o", "good.pb", "--n-tensors", "0", "--save-plan", "good.plan")
    return tmp_path


def check_refused(ebb, folder, name, message):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for command in commands(name):
        done = ebb(*command)
        assert (done.returncode, done.stdout) == (3, ""), (command, done.stderr)
        assert done.stderr.startswith(f"ebb: {name}:"), command
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("kind", BROKEN_GRAPHS)
def test_a_broken_graph_is_bad_input_to_every_command_in_text_and_binary(ebb, folder, kind):
    text, message = BROKEN_GRAPHS[kind]
    (folder / "bad.pbtxt").write_text(text)
    check_refused(ebb, folder, "bad.pbtxt", f"bad.pbtxt: {message}")
    assert ebb("convert", "bad.pbtxt", "bad.pb").returncode == 0  # forms change whatever a file holds
    check_refused(ebb, folder, "bad.pb", f"bad.pb: {message}")


BAD_FILES = {
    "a field that TensorFlow has not": (
        changed('op: "Softplus"', 'opp: "Softplus"').encode(), ":176:3: no field 'opp' in tensorflow.NodeDef; did you mean 'op'?"),
    "a type that TensorFlow has not": (
        TRAINING.replace("DT_FLOAT", "DT_FLAOT", 1).encode(), "no 'DT_FLAOT'; did you mean 'DT_FLOAT'?"),
    "half a text": (TRAINING.removesuffix("}\n").encode(), ": the text ends inside a tensorflow."),
    "half a file": (BINARY + BINARY[:-1], ": G01: the file begins like a binary GraphDef and ends after 35 bytes"),
    "nothing": (b"", ": G01: the file is empty"),
    "other bytes": (bytes(range(256)) * 16, ": G01: this is no TensorFlow graph"),
    "zeros": (b"\0" * 1000, ": G01: this is no TensorFlow graph"),
    "an .ebb text under another name": (b"graph g {\n  return\n}\n", ": G01: this is no TensorFlow graph"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_what_is_no_file_of_tensorflows_is_bad_input_to_every_command(ebb, folder, kind):
    content, message = BAD_FILES[kind]
    (folder / "bad.pb").write_bytes(content)
    check_refused(ebb, folder, "bad.pb", message)
    done = ebb("convert", "bad.pb", "out.pbtxt")
    assert (done.returncode, done.stdout) == (3, "")
    assert message in done.stderr
    assert not (folder / "out.pbtxt").exists()


def test_every_cut_and_every_changed_byte_is_refused_or_a_graph(ebb, folder):
    """No crash, no bug of ours; and what is refused leaves nothing."""
    content = (folder / "good.pb").read_bytes()
    (folder / "out.ebb").write_text("kept")
    statuses = set()
    for at in range(0, len(content), 61):
        for damaged in (content[:at], content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :]):
            done = ebb("verify", "-", stdin=damaged)
            assert done.returncode in (0, 3), (at, done.stderr)
            statuses.add(done.returncode)
            if done.returncode == 3:
                assert done.stderr.startswith(b"ebb: standard input:")
                assert ebb("convert", "-", "out.ebb", stdin=damaged).returncode == 3
                assert (folder / "out.ebb").read_text() == "kept"
    assert statuses == {0, 3}


def test_what_a_text_cannot_keep_is_not_dropped(ebb, folder):
    (folder / "new.pb").write_bytes(BINARY + BINARY + b"\xa0\x06\x01")
    done = ebb("convert", "new.pb", "out.pbtxt")
    assert (done.returncode, done.stdout) == (3, "")
    assert "new.pb: field 100 has no name in the tensorflow.GraphDef" in done.stderr
    assert not (folder / "out.pbtxt").exists()


@pytest.mark.parametrize("out", ["out.pb", "out.pbtxt"])
@pytest.mark.parametrize("command", ["convert", "rewrite", "apply"])
def test_a_graph_that_never_came_from_tensorflow_does_not_become_its(ebb, folder, command, out):
    tiny = EXAMPLES / "tiny.ebb"
    ebb("rewrite", tiny, "-o", "other.ebb", "--save-plan", "tiny.plan", "--whole-graph")
    args = {
        "convert": ["convert", tiny, out],
        "rewrite": ["rewrite", tiny, "-o", out, "--save-plan", "new.plan", "--whole-graph"],
        "apply": ["apply", tiny, "tiny.plan", "-o", out],
    }[command]
    done = ebb(*args)
    assert (done.returncode, done.stdout) == (3, "")
    assert "tiny.ebb: G10: 'x' did not come from TensorFlow" in done.stderr
    assert not (folder / out).exists()
    assert not (folder / "new.plan").exists()


def test_a_graph_of_nothing_does_not_become_an_empty_file(ebb, folder):
    done = ebb("convert", "-", "out.pb", stdin="graph g {\n  return\n}\n")
    assert (done.returncode, done.stdout) == (3, "")
    assert "standard input: the graph is empty" in done.stderr
    assert not (folder / "out.pb").exists()
