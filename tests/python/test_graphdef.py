"""ebb._core on TensorFlow's graphs, without TensorFlow."""

import json

import ebb
import pytest
from ebb import _core


def field(number: int, value: bytes) -> bytes:
    """A field of a protobuf: a text or a message of less than 128 bytes."""
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def node(name: str, op: str, *inputs: str) -> bytes:
    parts = [field(1, name.encode()), field(2, op.encode())]
    return field(1, b"".join(parts + [field(3, each.encode()) for each in inputs]))


NOTHING_TO_SWAP = node("a", "NoOp") + node("b", "NoOp", "^a")


def test_a_graph_with_nothing_to_swap_is_not_written_again():
    done = _core.rewrite_graphdef(NOTHING_TO_SWAP, _core.LmsOptions())
    assert done.graphdef is None
    assert not done.was_rewritten_before
    assert json.loads(done.report)["tensors_swapped"] == 0
    assert done.summary


def test_foreign_bytes_and_missing_inputs_raise_bad_input():
    with pytest.raises(ebb.Error) as caught:
        _core.rewrite_graphdef(b"\xff\xff\xff", _core.LmsOptions())
    assert caught.value.kind == "bad_input"
    with pytest.raises(ebb.Error, match="nobody") as caught:
        _core.rewrite_graphdef(node("a", "NoOp", "^nobody"), _core.LmsOptions())
    assert caught.value.kind == "bad_input"


def test_options_have_the_paper_s_defaults_and_refuse_other_types():
    options = _core.LmsOptions()
    assert (options.n_tensors, options.lb, options.ub) == (-1, 1, 10000)
    assert (options.ctrld_strategy, options.branch_threshold) == ("chain_rule", 0)
    assert not (options.fuse_swapins or options.swap_branches)
    with pytest.raises(TypeError):
        options.lb = "1"
    with pytest.raises(AttributeError):
        options.lower_bound = 1


def test_sizes_are_numbers_or_texts():
    options = _core.LmsOptions()
    options.min_bytes = "1.5KiB"
    assert options.min_bytes == 1536
    options.min_bytes = 7
    assert options.min_bytes == 7
    with pytest.raises(ebb.Error, match="'1.5' has no unit"):
        options.min_bytes = "1.5"


def test_wrong_options_raise_usage():
    options = _core.LmsOptions()
    options.lb = 0
    with pytest.raises(ebb.Error) as caught:
        _core.rewrite_graphdef(NOTHING_TO_SWAP, options)
    assert caught.value.kind == "usage"


def test_an_operator_that_is_not_tensorflow_s_own_is_asked_for():
    asked = []
    foreign = node("a", "Foreign")
    definition = field(1, b"Foreign")

    def op_def(name: str) -> bytes:
        asked.append(name)
        return definition

    _core.rewrite_graphdef(foreign, _core.LmsOptions(), op_def=op_def)
    assert set(asked) == {"Foreign"}


def test_an_exception_in_the_answer_comes_out():
    def op_def(name: str) -> bytes:
        raise LookupError(name)

    with pytest.raises(LookupError, match="Foreign"):
        _core.rewrite_graphdef(node("a", "Foreign"), _core.LmsOptions(), op_def=op_def)
