"""TensorFlow's files on the command line: every command reads them, and what is written is in the form that was asked for."""

import json
import pathlib
import textwrap

import pytest

TRAINING = (pathlib.Path(__file__).parent / "training.pbtxt").read_text()
TINY = pathlib.Path(__file__).parents[2] / "examples/tiny.ebb"
SCOPES = ["--optimizer-scopes", "adam_optimizer"]

GRAPH = """node {
  name: "x"
  op: "Placeholder"
}
"""
BINARY = b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder"


def saved_model(*tags_and_graphs):
    graphs = "".join(
        f'meta_graphs {{\n  meta_info_def {{\n    tags: "{tag}"\n  }}\n  graph_def {{\n'
        f'{textwrap.indent(graph, "    ")}  }}\n  asset_file_def {{\n    filename: "{tag}.txt"\n  }}\n}}\n'
        for tag, graph in tags_and_graphs
    )
    return "saved_model_schema_version: 1\n" + graphs


@pytest.fixture
def files(ebb, tmp_path):
    """training.pbtxt, and training.pb, the same."""
    (tmp_path / "training.pbtxt").write_text(TRAINING)
    assert ebb("convert", "training.pbtxt", "training.pb").returncode == 0
    return tmp_path


def test_pb_and_pbtxt_become_each_other(ebb, tmp_path):
    (tmp_path / "graph.pb").write_bytes(BINARY)
    done = ebb("convert", "graph.pb", "graph.pbtxt")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "graph.pbtxt").read_text() == GRAPH
    assert ebb("convert", "graph.pbtxt", "again.pb").returncode == 0
    assert (tmp_path / "again.pb").read_bytes() == BINARY


def test_attributes_in_another_order_are_the_same_computation(ebb, tmp_path):
    attributes = ['  attr { key: "Tshape" value { type: DT_INT32 } }\n', '  attr { key: "T" value { type: DT_FLOAT } }\n']
    for name, order in (("a.pbtxt", attributes), ("b.pbtxt", attributes[::-1])):
        inputs = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }\n'
        inputs += 'node { name: "s" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }\n'
        (tmp_path / name).write_text(
            inputs + 'node { name: "r" op: "Reshape" input: "x" input: "s"\n' + "".join(order) + "}\n"
        )
    assert ebb("verify", "a.pbtxt", "b.pbtxt").returncode == 0
    changed = (tmp_path / "b.pbtxt").read_text().replace('"Tshape" value { type: DT_INT32', '"Tshape" value { type: DT_INT64')
    (tmp_path / "b.pbtxt").write_text(changed)
    assert ebb("verify", "a.pbtxt", "b.pbtxt").returncode == 5


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


@pytest.mark.parametrize("name", ["training.pb", "training.pbtxt"])
def test_one_file_is_verified_and_its_nodes_are_those_of_tensorflow(ebb, files, name):
    done = ebb("verify", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{name}: valid: {TRAINING.count('node {')} nodes, all 21 invariants hold\n"
    assert json.loads(ebb("verify", name, "--json").stdout) == {
        "valid": True, "nodes": 15, "implicit_copies": 0, "violations": [],
    }


def test_show_counts_and_measures(ebb, files):
    done = ebb("show", "training.pb")
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "  12 operations, 1 parameter, 1 input, 1 constant\n",
        "'adam_optimizer/gradients/w', operation 10 of 12\n",
        "     4.0 KiB  %w: resource[] @host (parameter)\n",
    ):
        assert words in done.stdout
    report = json.loads(ebb("show", "training.pb", "--json").stdout)
    assert report["counts"]["nodes"] == 15
    assert report["counts"]["operations"] == 12
    assert report["devices"] == 1
    # x and the gradient of a are 8·32 floats, w and its gradient 32·32; the learning rate is one more.
    assert report["peak_bytes"] == 4 * (2 * 8 * 32 + 2 * 32 * 32 + 1)
    assert ebb("show", "training.pb", "--lines").stdout.count("\n") == 1 + 15 + 1  # and the file's own line
    assert ebb("show", "training.pb", "--dot").stdout.startswith('digraph "graph" {')


def test_what_is_on_other_devices_is_on_the_host(ebb, files):
    placed = TRAINING.replace('  input: "a"\n', '  input: "a"\n  device: "/job:a/task:0/device:CPU:1"\n')
    assert placed.count("CPU:1") > 1
    shown = json.loads(ebb("show", "-", "--json", stdin=placed).stdout)
    there = json.loads(ebb("show", "-", "--json", "--accelerator", "/device:CPU:1", stdin=placed).stdout)
    assert shown["host_peak_bytes"] >= 4 * 8 * 32
    assert there["host_peak_bytes"] == 0


@pytest.mark.parametrize("name", ["training.pb", "training.pbtxt"])
def test_rewrite_swaps_proves_and_says_what_it_did(ebb, files, name):
    out = name.replace("training", "out")
    done = ebb("rewrite", name, "-o", out, *SCOPES, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "Swapped: 2 tensors, 2.0 KiB; 3 swap-ins",
        "Backward phase: 5 operations",
        "Peak before: 10.0 KiB at 'adam_optimizer/gradients/w'; after: 10.0 KiB at 'adam_optimizer/gradients/w'; on the host: 2.0 KiB",
        "Left alone: 2 edges",
        "       2  the reader follows too closely: no level of γ is between; "
        "first: %c for 'adam_optimizer/gradients/ones'",
    ]
    report = json.loads(done.stdout)
    assert (report["nodes_before"], report["nodes_after"]) == (15, 20)
    done = ebb("verify", name, out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{out}: the same computation as {name}: 15 nodes compute the same; "
        "added: 2 swap-outs, 3 swap-ins, 3 control edges\n"
    )


def test_a_rewritten_text_has_marked_nodes_and_nothing_else_but_their_readers_differs(ebb, files):
    assert ebb("rewrite", "training.pbtxt", "-o", "out.pbtxt", *SCOPES).returncode == 0
    nodes = (files / "out.pbtxt").read_text().split("\nnode {")
    added = [node for node in nodes if 'key: "_ebb"' in node]
    assert len(added) == 5
    assert all('  op: "Identity"\n' in node and '  device: "/device:CPU:0"\n' in node for node in added)
    kept = "\nnode {".join(node for node in nodes if node not in added)
    before = ['"a"', '"a"', '"x"']  # of the softplus' gradient, the relu's and the product's
    after = ['"a.back"', '"a.back.2"', '"x.back"']
    for old, new in zip(before, after, strict=True):
        assert kept.count(new) == 1
        kept = kept.replace(new, old)
    assert kept.removesuffix("\n") == TRAINING.removesuffix("\n")


@pytest.mark.parametrize("options, says", [
    (["--host", "/device:CPU:3"], '  op: "Identity"\n  input: "x"\n  device: "/device:CPU:3"\n'),
    (["--swap-nodes", "copy_kernels"], '  op: "_CopyFromGpuToHost"\n  input: "x"\n'),
])
def test_how_swaps_are_written_is_an_option(ebb, files, options, says):
    for command in (["rewrite", "training.pb", *SCOPES], ["apply", "training.pb", "my.plan"]):
        if command[0] == "apply":
            ebb("rewrite", "training.pb", "-o", "out.ebb", "--save-plan", "my.plan", *SCOPES)
        done = ebb(*command, "-o", "-", "--to", "pbtxt", *options)
        assert done.returncode == 0, done.stderr
        assert says in done.stdout
    # Decided when the file is written, not when the graph is rewritten.
    assert says in ebb("convert", "out.ebb", "-", "--to", "pbtxt", *options).stdout


def test_the_form_is_that_of_the_suffix(ebb, files):
    forms = {"out.pb": b"\n", "out.pbtxt": b"node {\n", "out.ebb": b"graph graph {\n"}
    for out, begin in forms.items():
        for name in ("training.pb", "training.pbtxt"):
            assert ebb("rewrite", name, "-o", out, *SCOPES).returncode == 0
            assert (files / out).read_bytes().startswith(begin)
    binary, text = (files / "out.pb").read_bytes(), (files / "out.pbtxt").read_text()
    assert ebb("convert", "out.ebb", "-", "--to", "pb", stdin=b"").stdout == binary
    assert ebb("convert", "out.pb", "-", "--to", "pbtxt").stdout == text


def test_without_a_suffix_it_is_that_of_the_input(ebb, files):
    binary = (files / "training.pb").read_bytes()
    for name in ("rewritten", "rewritten.meta"):
        assert ebb("rewrite", "training.pb", "-o", name, *SCOPES).returncode == 0
        assert ebb("verify", "training.pb", name).returncode == 0
        assert (files / name).read_bytes().startswith(binary[:50])
    done = ebb("rewrite", "-", "-o", "-", *SCOPES, stdin=binary)
    assert done.returncode == 0
    assert done.stdout == (files / "rewritten").read_bytes()
    done = ebb("rewrite", "-", "-o", "-", *SCOPES, stdin=TRAINING)
    assert done.stdout.startswith('node {\n  name: "x"\n')
    assert ebb("convert", "-", "-", stdin=binary).stdout == binary
    assert ebb("convert", "-", "-", stdin=TRAINING).stdout == TRAINING


def test_to_ebb_and_back_no_byte_is_lost(ebb, files):
    binary = (files / "training.pb").read_bytes()
    # Fields that nobody knows, in the file and in a node, and a node that is not as protobuf writes it.
    strange = binary + b"\x0a\x0c\x12\x04NoOp\x0a\x04odd1" + b"\xa0\x06\x01" + b"\x0a\x0f\x0a\x04odd2\x12\x04NoOp\xa0\x06\x01"
    for number, content in enumerate((binary, strange)):
        (files / "in.pb").write_bytes(content)
        assert ebb("convert", "in.pb", "there.ebb").returncode == 0
        done = ebb("convert", "there.ebb", "back.pb", "--json")
        assert json.loads(done.stdout) == {
            "output": "back.pb", "format": "pb", "nodes": 15 + 2 * number, "message": "GraphDef", "bytes": len(content),
        }
        assert (files / "back.pb").read_bytes() == content
        assert ebb("rewrite", "in.pb", "-o", "same.pb", "--n-tensors", "0", *SCOPES).returncode == 0
        assert (files / "same.pb").read_bytes() == content


def test_a_rewritten_file_goes_to_ebb_and_back_too(ebb, files):
    ebb("rewrite", "training.pb", "-o", "out.pb", *SCOPES)
    assert ebb("convert", "out.pb", "out.ebb").returncode == 0
    assert ebb("verify", "training.pb", "out.ebb").returncode == 0
    assert ebb("convert", "out.ebb", "back.pb").returncode == 0
    assert (files / "back.pb").read_bytes() == (files / "out.pb").read_bytes()


def test_a_second_rewrite_changes_nothing_and_says_why(ebb, files):
    ebb("rewrite", "training.pb", "-o", "once.pb", *SCOPES)
    done = ebb("rewrite", "once.pb", "-o", "twice.pb", *SCOPES)
    assert done.returncode == 0
    assert done.stderr.startswith(
        "Rewritten before: 2 swap-outs and 0 clones are there already, and stay as they are\n"
        "Nothing is swapped.\n"
    )
    assert (files / "twice.pb").read_bytes() == (files / "once.pb").read_bytes()


def test_a_graph_may_be_rewritten_in_its_place(ebb, files):
    ebb("rewrite", "training.pb", "-o", "out.pb", *SCOPES)
    assert ebb("rewrite", "training.pb", "-o", "training.pb", *SCOPES).returncode == 0
    assert (files / "training.pb").read_bytes() == (files / "out.pb").read_bytes()


@pytest.mark.parametrize("name", ["training.pb", "training.pbtxt", "training.ebb"])
def test_a_plan_fits_the_graph_in_every_form(ebb, files, name):
    ebb("convert", "training.pb", "training.ebb")
    ebb("rewrite", "training.pb", "-o", "out.pb", "--save-plan", "my.plan", *SCOPES)
    done = ebb("apply", name, "my.plan", "-o", "again.pb", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "Applied 2 decisions: 15 nodes compute the same; added: 2 swap-outs, 3 swap-ins, 3 control edges\n"
    )
    report = json.loads(done.stdout)
    assert (report["nodes_before"], report["nodes_after"]) == (15, 20)
    assert (files / "again.pb").read_bytes() == (files / "out.pb").read_bytes()


def test_a_plan_for_another_file_is_refused(ebb, files):
    ebb("rewrite", "training.pb", "-o", "out.pb", "--save-plan", "my.plan", *SCOPES)
    other = TRAINING.replace('op: "Softplus"', 'op: "Softsign"').replace('op: "SoftplusGrad"', 'op: "SoftsignGrad"')
    done = ebb("apply", "-", "my.plan", "-o", "again.pb", stdin=other)
    assert done.returncode == 3
    assert "made for another graph" in done.stderr
    assert not (files / "again.pb").exists()


def test_verify_says_which_nodes_of_two_files_differ_and_has_no_lines(ebb, files):
    ebb("rewrite", "training.pb", "-o", "out.pbtxt", *SCOPES)
    text = (files / "out.pbtxt").read_text()
    assert text.count('"a.back.2"') == 2
    (files / "out.pbtxt").write_text('"h"'.join(text.rsplit('"a.back.2"', 1)))
    done = ebb("verify", "training.pb", "out.pbtxt")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("ebb: out.pbtxt: ")
    assert "'adam_optimizer/gradients/a'" in done.stderr
    difference = json.loads(ebb("verify", "training.pb", "out.pbtxt", "--json").stdout)["difference"]
    assert (difference["original_line"], difference["line"]) == (None, None)
    assert "'adam_optimizer/gradients/a'" in difference["message"]


def test_a_rewritten_graph_goes_back_into_its_saved_model(ebb, files):
    serve = 'node {\n  name: "nothing"\n  op: "NoOp"\n}\n'
    text = saved_model(("serve", serve), ("train", TRAINING))
    (files / "saved_model.pbtxt").write_text(text)
    assert ebb("convert", "saved_model.pbtxt", "saved_model.pb").returncode == 0
    ebb("rewrite", "training.pbtxt", "-o", "out.pbtxt", *SCOPES)
    expected = saved_model(("serve", serve), ("train", (files / "out.pbtxt").read_text()))
    for name in ("saved_model.pb", "saved_model.pbtxt"):
        for out in ("out.pb", "out.pbtxt"):
            done = ebb("rewrite", name, "-o", out, "--tags", "train", *SCOPES)
            assert done.returncode == 0, done.stderr
            assert ebb("convert", out, "-", "--to", "pbtxt").stdout == expected
            assert ebb("verify", name, out, "--tags", "train").returncode == 0
    # Without tags it is the first graph.
    assert "1 nodes" in ebb("verify", "saved_model.pb", "--tags", "serve").stdout
    assert "1 nodes" in ebb("verify", "saved_model.pb").stdout


def test_tags_that_no_graph_has_are_named_with_those_that_there_are(ebb, files):
    done = ebb("show", "-", "--tags", "serve,gpu", stdin=saved_model(("serve", GRAPH), ("train", TRAINING)))
    assert (done.returncode, done.stdout) == (3, "")
    assert "no graph with the tags {serve, gpu}; it has {serve}, {train}" in done.stderr


WRONG_USAGE = [
    (["show", TINY, "--accelerator", "/device:GPU:0"], "--accelerator is for TensorFlow's files; "),
    (["verify", TINY, TINY, "--accelerator", "/device:GPU:0"], "--accelerator is for TensorFlow's files; "),
    (["show", TINY, "--tags", "serve"], "--tags is for SavedModels; "),
    (["show", "training.pb", "--tags", "serve"], "training.pb is a binary GraphDef"),
    (["show", "training.pb", "--accelerator", "/device:"], "--accelerator = '/device:' is no device"),
    (["show", "training.pb", "--host", "/device:CPU:0"], "--host"),
    (["rewrite", "training.pb", "-o", "out.pb", "--host", "/device:CPU:x"], "--host = '/device:CPU:x' is no device"),
    (["rewrite", "training.pb", "-o", "out.ebb", "--host", "/device:CPU:1"], "--host is for what is written as .pb"),
    (["convert", "training.pb", "out.dot", "--swap-nodes", "identity"], "this becomes a drawing"),
    (["convert", "training.pb", "out.pbtxt", "--tags", "serve"], "--tags has no say here"),
    (["rewrite", "training.pb", "-o", "out.pb", "--swap-nodes", "other"], "other not in {identity,copy_kernels}"),
    (["rewrite", "training.pb", "-o", "out.pb", "--codec", "bits"], "--codec has no form in TensorFlow's files yet"),
    (["rewrite", "training.pb", "-o", "out.dot"], "'out.dot' would be a drawing"),
    (["rewrite", "training.pb", "-o", "out.pb", "--to", "dot"], "dot not in {ebb,pb,pbtxt}"),
    (["rewrite", "training.pb", "-o", "out.pb", "--optimizer-scopes", "adam_optimiser"], "did you mean 'adam_optimizer'?"),
]


@pytest.mark.parametrize("args, message", WRONG_USAGE, ids=[" ".join(map(str, w[0][:2] + w[0][-2:])) for w in WRONG_USAGE])
def test_options_that_can_have_no_effect_are_wrong_usage(ebb, files, args, message):
    done = ebb(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not list(files.glob("out.*"))


def test_one_of_two_files_is_enough_for_an_option(ebb, files):
    ebb("convert", "training.pb", "training.ebb")
    assert ebb("verify", "training.ebb", "training.pb", "--accelerator", "/device:GPU:*").returncode == 0
    # To others the nodes of this file, which have no device, are what they were.
    assert ebb("verify", "training.ebb", "training.pb", "--accelerator", "/device:TPU:0").returncode == 0
