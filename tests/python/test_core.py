"""ebb._core: graphs as Python sees them."""

import doctest
import os
import pathlib
import pickle
import subprocess

import ebb
import ebb.error
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = (ROOT / "examples" / "tiny.ebb").read_text(encoding="utf-8")

UNKNOWN_TENSOR = """graph g {
  input %x: f32[8]
  %y: f32[8] = aten::sin(%z)
  return %y
}
"""
UPDATES_WITHOUT_RESULTS = """graph g {
  param %v: f32[8]
  param %w: f32[8]
  %a: f32[8] = aten::relu(%w)
  %b: f32[8] = aten::add_(%w!, %a)
  %c: f32[8] = aten::add_(%v!, %a)
  return %b, %c
}
"""


def test_canonical_text_comes_back_byte_for_byte():
    assert str(ebb.parse(TINY)) == TINY


def test_any_text_of_a_graph_is_printed_in_its_canonical_form():
    assert str(ebb.parse(TINY.replace("  ", "\t ") + "# the end\n")) == TINY


def test_a_graph_says_its_name_and_size():
    graph = ebb.parse(TINY)
    assert (graph.name, graph.node_count) == ("step", 11)
    assert repr(graph) == "<ebb.Graph 'step', 11 nodes>"


def test_names_may_be_in_any_language():
    graph = ebb.parse(TINY.replace("graph step", 'graph "Größe 大"'))
    assert graph.name == "Größe 大"


def test_an_unreadable_text_raises_an_error_with_kind_code_and_place():
    with pytest.raises(ebb.Error) as caught:
        ebb.parse(UNKNOWN_TENSOR)
    error = caught.value
    assert (error.kind, error.code, error.line, error.column) == ("bad_input", "P24", 3, 27)
    assert error.message == "there is no tensor 'z' in this graph"
    assert str(error) == f"<text>:3:27: P24: {error.message}"


def test_a_graph_that_breaks_an_invariant_raises_an_error_with_its_line():
    with pytest.raises(ebb.Error) as caught:
        ebb.parse(UPDATES_WITHOUT_RESULTS)
    assert (caught.value.kind, caught.value.code, caught.value.line) == ("refused", "V09", 5)
    assert "%w" in caught.value.message


def test_violations_are_listed_without_being_raised():
    found = ebb.find_violations(UPDATES_WITHOUT_RESULTS)
    assert [(error.code, error.line) for error in found] == [("V09", 5), ("V09", 6)]
    assert all(isinstance(error, ebb.Error) for error in found)
    assert len(ebb.find_violations(UPDATES_WITHOUT_RESULTS, limit=1)) == 1
    assert ebb.find_violations(TINY) == []


def test_an_error_survives_pickling():
    [error, _] = ebb.find_violations(UPDATES_WITHOUT_RESULTS)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.skipif("EBB_TOOL" not in os.environ, reason="built without the command line tool")
@pytest.mark.parametrize(("option", "method"), [([], "summary"), (["--json"], "summary_json")])
def test_the_summary_is_what_the_command_line_shows(option, method):
    shown = subprocess.run(
        [os.environ["EBB_TOOL"], "show", "-", *option],
        input=TINY, capture_output=True, text=True, check=True, encoding="utf-8",
    )
    assert getattr(ebb.parse(TINY), method)() == shown.stdout


def test_a_bug_in_ebb_is_an_internal_error_that_keeps_the_dump():
    import ebb_throwing

    with pytest.raises(ebb.Error) as caught:
        ebb_throwing.fail()
    assert (caught.value.kind, caught.value.dump) == ("internal", "graph g {\n}\n")
    assert "the plan lost %a" in caught.value.message
    assert "please report it" in caught.value.message


@pytest.mark.parametrize("module", [ebb, ebb.error])
def test_the_examples_in_docstrings_run(module):
    results = doctest.testmod(module)
    assert (results.failed, results.attempted > 0) == (0, True)
