"""`ebb verify ORIGINAL REWRITTEN` says no to a rewritten graph that was damaged, whatever the damage is."""

import pytest

ORIGINAL = """graph step {
  input %x: f32[8]
  input %keep: bool[64]
  param %w: f32[8]
  scalar $lr: f64
  %h: f32[8] = my::mul(%x, %w)
  %a: f32[8] = my::relu(%h)
  %s: f32[8] = my::sin(%a)
  %m: f32[8] = my::dropout(%s) random
  log: my::print(%m) effect
  %b: f32[8] = my::sub(%s, %a) {scale = 2.0}
  more: my::print(%b) effect
  %g: f32[8] = my::where(%b, %keep) after log
  %w.1: f32[8] ~ %w = my::add_(%w!, %g) {alpha = $lr}
  %d: f32[8] = my::dot(%w.1, %h)
  %e: f32[8] = my::dot(%d, %a)
  return %e, %g, %w.1
}
"""
# Swapped, encoded, computed again from a snapshot.
REWRITTEN = """graph step {
  input %x: f32[8]
  input %keep: bool[64]
  %keep.code: u8[8] = ebb::encode(%keep) {codec = "bits"}
  %keep.host: u8[8] @host = ebb::swap_out(%keep.code)
  param %w: f32[8]
  scalar $lr: f64
  %h: f32[8] = my::mul(%x, %w)
  %a: f32[8] = my::relu(%h)
  %a.host: f32[8] @host = ebb::swap_out(%a)
  %s: f32[8] = my::sin(%a)
  %s.host: f32[8] @host = ebb::swap_out(%s)
  %m: f32[8] = my::dropout(%s) random
  log: my::print(%m) effect
  %b: f32[8] = my::sub(%s, %a) {scale = 2.0}
  more: my::print(%b) effect
  %keep.in: u8[8] = ebb::swap_in(%keep.host) after b
  %keep.back: bool[64] = ebb::decode(%keep.in) {codec = "bits"}
  %g: f32[8] = my::where(%b, %keep.back) after log
  %w.kept: f32[8] = ebb::snapshot(%w)
  %w.1: f32[8] ~ %w = my::add_(%w!, %g) {alpha = $lr}
  %h.again: f32[8] = my::mul(%x, %w.kept) clone of h after g
  %d: f32[8] = my::dot(%w.1, %h.again)
  %a.back: f32[8] = ebb::swap_in(%a.host) after d
  %e: f32[8] = my::dot(%d, %a.back)
  return %e, %g, %w.1
}
"""


DAMAGE = {
    "a dropped operand": ("my::sub(%s, %a)", "my::sub(%s)", "S04"),
    "another operand": ("my::sub(%s, %a)", "my::sub(%s, %h)", "S04"),
    "swapped operands": ("my::sub(%s, %a)", "my::sub(%a, %s)", "S04"),
    "a lost control edge": (" after log", "", "S10"),
    "an update that moved above a reader": (
        "  %w.kept: f32[8] = ebb::snapshot(%w)\n  %w.1: f32[8] ~ %w = my::add_(%w!, %g) {alpha = $lr}\n",
        "  %w.1: f32[8] ~ %w = my::add_(%w!, %g) {alpha = $lr}\n  %w.kept: f32[8] = ebb::snapshot(%w)\n",
        "V16",
    ),
    "a clone that reads what was overwritten": (
        "  %w.1: f32[8] ~ %w = my::add_(%w!, %g) {alpha = $lr}\n  %h.again: f32[8] = my::mul(%x, %w.kept) clone of h after g\n",
        "  %w.1: f32[8] ~ %w = my::add_(%w!, %g) {alpha = $lr}\n  %h.again: f32[8] = my::mul(%x, %w) clone of h after g\n",
        "V16",
    ),
    "an update that became a read": ("my::add_(%w!, %g)", "my::add_(%w, %g)", "S04"),
    "a clone of a random operation": (
        "  log: my::print(%m) effect\n",
        "  %m.again: f32[8] = my::dropout(%s) clone of m\n  log: my::print(%m.again) effect\n",
        "V21",
    ),
    "a clone of an effect": ("  more:", "  again: my::print(%m) clone of log\n  more:", "V21"),
    "an effect that runs twice": ("  more:", "  again: my::print(%m) effect\n  more:", "S02"),
    "a type": ("%s: f32[8] = my::sin", "%s: f32[2,4] = my::sin", "V20"),
    "the type of a result that nobody copies": ("%d: f32[8]", "%d: f32[2,4]", "S05"),
    "a missing output": ("return %e, %g, %w.1", "return %e, %w.1", "S08"),
    "outputs in another order": ("return %e, %g, %w.1", "return %g, %e, %w.1", "S08"),
    "a copy as an output": ("return %e, %g, %w.1", "return %e, %a.back, %w.1", "S08"),
    "an attribute": ("{scale = 2.0}", "{scale = 3.0}", "S03"),
    "an attribute that is gone": (" {scale = 2.0}", "", "S03"),
    "a swap-in of another tensor": ("ebb::swap_in(%a.host)", "ebb::swap_in(%s.host)", "S04"),
    "a snapshot taken after the update": (
        "  %w.kept: f32[8] = ebb::snapshot(%w)\n  %w.1: f32[8] ~ %w = my::add_(%w!, %g) {alpha = $lr}\n",
        "  %w.1: f32[8] ~ %w = my::add_(%w!, %g) {alpha = $lr}\n  %w.kept: f32[8] = ebb::snapshot(%w.1)\n",
        "S07",
    ),
    "a reader of an older version": ("my::dot(%w.1, %h.again)", "my::dot(%w.kept, %h.again)", "S04"),
    "another codec on the way back": (
        'ebb::decode(%keep.in) {codec = "bits"}', 'ebb::decode(%keep.in) {codec = "bf16"}', "S06",
    ),
    "an encoded tensor that nobody decoded": ("my::where(%b, %keep.back)", "my::where(%b, %keep.in)", "S04"),
    "two effects in another order": (
        "  log: my::print(%m) effect\n  %b: f32[8] = my::sub(%s, %a) {scale = 2.0}\n  more: my::print(%b) effect\n",
        "  %b: f32[8] = my::sub(%s, %a) {scale = 2.0}\n  more: my::print(%b) effect\n  log: my::print(%m) effect\n",
        "S09",
    ),
    "a cycle": ("%a.host: f32[8] @host = ebb::swap_out(%a)", "%a.host: f32[8] @host = ebb::swap_out(%a) after a.back", "P22"),
    "a cycle through an update": (
        "  %h.again: f32[8] = my::mul(%x, %w.kept) clone of h after g\n",
        "  %h.again: f32[8] = my::mul(%x, %w) clone of h after w.1\n",
        "V16",
    ),
    "a dropped node": ("  more: my::print(%b) effect\n", "", "S01"),
    "an effect that became none": ("more: my::print(%b) effect", "more: my::print(%b)", "S03"),
    "an operation that was added": ("  more:", "  %n: f32[8] = my::neg(%b)\n  more:", "S02"),
    "a clone of another operand": ("my::mul(%x, %w.kept)", "my::mul(%w.kept, %x)", "S07"),
    "a device": ("%d: f32[8] = my::dot(%w.1, %h.again)", '%d: f32[8] = my::dot(%w.1, %h.again) @"cuda:1"', "S03"),
}


@pytest.fixture
def verdict(ebb, tmp_path):
    (tmp_path / "original.ebb").write_text(ORIGINAL)
    return lambda text: ebb("verify", "original.ebb", "-", stdin=text)


def test_the_graph_without_damage_is_proved(verdict):
    done = verdict(REWRITTEN)
    assert (done.returncode, done.stderr) == (0, "")
    assert "15 nodes compute the same" in done.stdout


@pytest.mark.parametrize(("before", "after", "code"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_refused(verdict, before, after, code):
    assert REWRITTEN.count(before) == 1
    done = verdict(REWRITTEN.replace(before, after))
    assert f" {code}: " in done.stderr, done.stderr
    # A text that is no graph is bad input.
    assert done.returncode == (3 if code.startswith("P") else 5)
