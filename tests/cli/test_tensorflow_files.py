"""TensorFlow's files on the command line: forms, messages, exit status."""

import json

import pytest

GRAPH = """node {
  name: "x"
  op: "Placeholder"
}
"""
BINARY = b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder"


def test_pb_and_pbtxt_become_each_other(ebb, tmp_path):
    (tmp_path / "graph.pb").write_bytes(BINARY)
    done = ebb("convert", "graph.pb", "graph.pbtxt")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "graph.pbtxt").read_text() == GRAPH
    assert ebb("convert", "graph.pbtxt", "again.pb").returncode == 0
    assert (tmp_path / "again.pb").read_bytes() == BINARY


def test_the_content_says_what_a_file_is(ebb, tmp_path):
    (tmp_path / "misnamed.pb").write_text(GRAPH)
    done = ebb("convert", "misnamed.pb", "out.pb", "--json")
    assert json.loads(done.stdout) == {
        "output": "out.pb", "format": "pb", "message": "GraphDef", "bytes": len(BINARY),
    }
    assert (tmp_path / "out.pb").read_bytes() == BINARY


def test_text_from_standard_input_to_standard_output(ebb):
    done = ebb("convert", "-", "-", "--to", "pbtxt", stdin="node < op: 'Placeholder' name: 'x' >")
    assert (done.returncode, done.stdout) == (0, GRAPH)


@pytest.mark.parametrize(("content", "message"), [
    (b"node {\n  nmae: 'x'\n}",
     "in:2:3: no field 'nmae' in tensorflow.NodeDef; did you mean 'name'?"),
    (b"node {", "in:1:7: the text ends inside a tensorflow.NodeDef"),
    (b"", "in: the file is empty"),
    (BINARY + BINARY[:-1], "in: the file begins like a binary GraphDef and ends after 35 bytes"),
    (b"graph g {\n  return\n}\n", "in: this is no TensorFlow graph"),
    (BINARY + BINARY + b"\xa0\x06\x01", "in: field 100 has no name in the tensorflow.GraphDef"),
])
def test_bad_files_are_status_3_and_leave_nothing(ebb, tmp_path, content, message):
    (tmp_path / "in").write_bytes(content)
    done = ebb("convert", "in", "out.pbtxt")
    assert (done.returncode, done.stdout) == (3, "")
    assert message in done.stderr
    assert not (tmp_path / "out.pbtxt").exists()
