// What is the same computation, and what is not: pairs of graphs, the second made from the first by
// replacing pieces of its text.
#include "ebb/rewrite/proof.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/edit.h"
#include "ebb/graph/parse.h"
#include "ebb/rewrite/proof_test_step.h"
#include "ebb/rewrite/proof_test_text.h"

namespace ebb {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Proof, AGraphIsTheSameAsItself) {
  EXPECT_EQ(verdict(kStep, {}), "12 nodes compute the same; added: nothing");
}

TEST(Proof, ASwapIsTheIdentity) {
  EXPECT_EQ(verdict(kStep, {{kRelu, kReluOut},
                            {kDot,
                             "  %a.back: f32[8] = ebb::swap_in(%a.host) after b\n"
                             "  %d: f32[8] = my::dot(%w.1, %a.back)\n"}}),
            "12 nodes compute the same; added: 1 swap-out, 1 swap-in, 1 control edge");
}

TEST(Proof, ASwapMayComeBackForSeveralGroupsOfReaders) {
  EXPECT_EQ(verdict(kStep, {{kRelu, kReluOut},
                            {"  %b: f32[8] = my::add(%s, %a)\n",
                             "  %a.back: f32[8] = ebb::swap_in(%a.host) after s\n"
                             "  %b: f32[8] = my::add(%s, %a.back)\n"},
                            {kDot,
                             "  %a.back.2: f32[8] = ebb::swap_in(%a.host) after b\n"
                             "  %d: f32[8] = my::dot(%w.1, %a.back.2)\n"}}),
            "12 nodes compute the same; added: 1 swap-out, 2 swap-ins, 2 control edges");
}

TEST(Proof, AViewMayBeMadeAgainOnACopy) {
  EXPECT_EQ(verdict(kStep, {{kRelu, kReluOut},
                            {"  %c: f32[4] = my::neg(%v)\n",
                             "  %a.back: f32[8] = ebb::swap_in(%a.host) after s\n"
                             "  %v.again: f32[4] ~ %a.back + 16B = my::slice(%a.back) {start = 4} "
                             "clone of v\n"
                             "  %c: f32[4] = my::neg(%v.again)\n"}}),
            "12 nodes compute the same; added: 1 swap-out, 1 swap-in, 1 clone, 1 control edge");
}

TEST(Proof, ACopyOfAViewBeginsWhereTheViewDoes) {
  constexpr std::string_view kViews = R"(graph g {
  input %x: f32[16]
  %u: f32[8] ~ %x + 32B = my::slice(%x)
  %v: f32[4] ~ %x + 48B = my::slice(%u)
  %n: f32[4] = my::neg(%v)
  return %n
}
)";
  constexpr std::string_view kNeg = "  %n: f32[4] = my::neg(%v)\n";
  EXPECT_EQ(verdict(kViews, {{kNeg,
                              "  %u.copy: f32[8] = ebb::snapshot(%u)\n"
                              "  %v.again: f32[4] ~ %u.copy + 16B = my::slice(%u.copy) clone of v\n"
                              "  %n: f32[4] = my::neg(%v.again)\n"}}),
            "4 nodes compute the same; added: 1 snapshot, 1 clone");
  EXPECT_EQ(verdict(kViews, {{kNeg,
                              "  %u.copy: f32[8] = ebb::snapshot(%u)\n"
                              "  %v.again: f32[4] ~ %u.copy = my::slice(%u.copy) clone of v\n"
                              "  %n: f32[4] = my::neg(%v.again)\n"}}),
            "S07: 'v.again' does not compute 'v' again: %v.again lies elsewhere than a copy of %v "
            "would: '%v.again: f32[4] ~ %u.copy = my::slice(%u.copy) clone of v' is to repeat "
            "'%v: f32[4] ~ %x + 48B = my::slice(%u)'");
}

// Any tensor of a storage will do to make a view of any of its bytes from; a copy has only its own.
TEST(Proof, ACopyDoesNotHaveTheBytesAroundWhatItCopies) {
  constexpr std::string_view kStrided = R"(graph g {
  param %x: f32[8]
  %u: f32[4] ~ %x = my::slice(%x)
  %e: f32[4] strides [2] ~ %x = my::every_other(%x)
  %v: f32[2] ~ %x + 8B = my::as_strided(%u)
  %w: f32[2] ~ %x + 4B = my::as_strided(%e)
  %n: f32[2] = my::add(%v, %w)
  return %n
}
)";
  constexpr std::string_view kAdd = "  %n: f32[2] = my::add(%v, %w)\n";
  EXPECT_EQ(verdict(kStrided, {{kAdd,
                                "  %k: f32[4] = ebb::snapshot(%u)\n"
                                "  %v2: f32[2] ~ %k + 8B = my::as_strided(%k) clone of v\n"
                                "  %n: f32[2] = my::add(%v2, %w)\n"}}),
            "6 nodes compute the same; added: 1 snapshot, 1 clone");
  EXPECT_THAT(verdict(kStrided, {{kAdd,
                                  "  %k: f32[4] strides [2] = ebb::snapshot(%e)\n"
                                  "  %w2: f32[2] ~ %k + 4B = my::as_strided(%k) clone of w\n"
                                  "  %n: f32[2] = my::add(%v, %w2)\n"}}),
              StartsWith("S07: 'w2' does not compute 'w' again: %w2 lie"));
}

TEST(Proof, ACloneComputesItsOriginalAgain) {
  EXPECT_EQ(verdict(kStep, {{kDot,
                             "  %a.again: f32[8] = my::relu(%h) clone of a after b\n"
                             "  %d: f32[8] = my::dot(%w.1, %a.again)\n"}}),
            "12 nodes compute the same; added: 1 clone, 1 control edge");
}

TEST(Proof, AChainOfClonesMayBeginAtACopy) {
  EXPECT_EQ(
      verdict(kStep, {{"  %h: f32[8] = my::mul(%x, %w) takes 40us\n",
                       "  %w.copy: f32[8] = ebb::snapshot(%w)\n"
                       "  %h: f32[8] = my::mul(%x, %w) takes 40us\n"
                       "  %x.host: f32[8] @host = ebb::swap_out(%x)\n"},
                      {kDot,
                       "  %x.back: f32[8] = ebb::swap_in(%x.host) after w.1\n"
                       "  %h.again: f32[8] = my::mul(%x.back, %w.copy) clone of h takes 40us\n"
                       "  %a.again: f32[8] = my::relu(%h.again) clone of a\n"
                       "  %d: f32[8] = my::dot(%w.1, %a.again)\n"}}),
      "12 nodes compute the same; added: 1 swap-out, 1 swap-in, 1 snapshot, 2 clones, 1 "
      "control edge");
}

TEST(Proof, AClonesResultMayBeSwappedToo) {
  EXPECT_EQ(verdict(kStep, {{kDot,
                             "  %a.again: f32[8] = my::relu(%h) clone of a after b\n"
                             "  %a.again.host: f32[8] @host = ebb::swap_out(%a.again)\n"
                             "  %a.back: f32[8] = ebb::swap_in(%a.again.host)\n"
                             "  %d: f32[8] = my::dot(%w.1, %a.back)\n"}}),
            "12 nodes compute the same; added: 1 swap-out, 1 swap-in, 1 clone, 1 control edge");
}

TEST(Proof, ADelayIsAControlEdge) {
  EXPECT_EQ(verdict(kStep, {{"my::neg(%v)\n", "my::neg(%v) after b\n"}}),
            "12 nodes compute the same; added: 1 control edge");
}

TEST(Proof, AControlEdgeThatOthersImplyIsNotMissed) {
  EXPECT_EQ(verdict(kStep, {{" after s ", " "}}), "12 nodes compute the same; added: nothing")
      << "%g reads %b, which reads %s";
}

TEST(Proof, LinesMayStandInAnotherOrderThatRuns) {
  EXPECT_EQ(verdict(kStep, {{"  input %x: f32[8]\n  param %w: f32[8]\n",
                             "  param %w: f32[8]\n  input %x: f32[8]\n"},
                            {"  %c: f32[4] = my::neg(%v)\n", ""},
                            {"  %s: f32[8] = my::sin(%a)\n",
                             "  %c: f32[4] = my::neg(%v)\n  %s: f32[8] = my::sin(%a)\n"}}),
            "12 nodes compute the same; added: nothing");
}

// Damage.

TEST(Proof, RefusesADroppedOperand) {
  EXPECT_EQ(verdict(kStep, {{"my::add(%s, %a)", "my::add(%s)"}}),
            "S04: 'b' has 1 operand where the original has 2: '%b: f32[8] = my::add(%s, %a)' "
            "became '%b: f32[8] = my::add(%s)'");
  EXPECT_EQ(verdict(kStep, {{"my::add(%s, %a)", "my::add(%s, none)"}}),
            "S04: 'b' does not read %a any more: '%b: f32[8] = my::add(%s, %a)' became '%b: f32[8] "
            "= my::add(%s, none)'");
}

TEST(Proof, RefusesSwappedOperands) {
  EXPECT_EQ(verdict(kStep, {{"my::add(%s, %a)", "my::add(%a, %s)"}}),
            "S04: 'b' reads %a where the original reads %s: '%b: f32[8] = my::add(%s, %a)' became "
            "'%b: f32[8] = my::add(%a, %s)'");
}

TEST(Proof, RefusesOtherOperandLists) {
  EXPECT_THAT(verdict(kStep, {{"([%b, %c], none)", "(%b, %c, none)"}}),
              StartsWith("S04: 'g' has other operand lists: '%g"));
}

TEST(Proof, RefusesALostControlEdge) {
  constexpr std::string_view kOrdered = R"(graph g {
  input %x: f32[8]
  %a: f32[8] = my::relu(%x)
  %b: f32[8] = my::relu(%x) after a
  return %a, %b
}
)";
  EXPECT_EQ(
      verdict(kOrdered, {{" after a", ""}}),
      "S10: 'b' does not wait for 'a', as it does in the original: '%b: f32[8] = my::relu(%x) "
      "after a' and '%b: f32[8] = my::relu(%x)'");
}

TEST(Proof, RefusesAnUpdateThatMovedAcrossAReader) {
  EXPECT_EQ(verdict(kStep, {{kDot, ""},
                            {"  %w.1: f32[8]",
                             "  %d: f32[8] = my::dot(%w, %a)\n"
                             "  %w.1: f32[8]"}}),
            "S04: 'd' reads %w where the original reads %w.1: '%d: f32[8] = my::dot(%w.1, %a)' "
            "became '%d: f32[8] = my::dot(%w, %a)'");
}

TEST(Proof, RefusesAReaderOfWhatWasOverwritten) {
  EXPECT_EQ(verdict(kStep, {{kDot,
                             "  %h.again: f32[8] = my::mul(%x, %w) clone of h takes 40us\n"
                             "  %a.again: f32[8] = my::relu(%h.again) clone of a\n"
                             "  %d: f32[8] = my::dot(%w.1, %a.again)\n"}}),
            "V16: the rewritten graph is wrong by itself: 'h.again' reads %w, which 'w.1' has "
            "overwritten by then; read what 'w.1' makes, or move 'h.again' above it: '%h.again: "
            "f32[8] = my::mul(%x, %w) clone of h takes 40us'");
}

TEST(Proof, RefusesASwapOutAfterTheUpdate) {
  EXPECT_THAT(verdict(kStep, {{kDot,
                               "  %w.host: f32[8] @host = ebb::swap_out(%w)\n"
                               "  %d: f32[8] = my::dot(%w.1, %a)\n"}}),
              StartsWith("V16: the rewritten graph is wrong by itself: 'w.host' reads "));
}

TEST(Proof, RefusesACloneOfTheNewVersion) {
  EXPECT_EQ(verdict(kStep, {{kDot,
                             "  %h.again: f32[8] = my::mul(%x, %w.1) clone of h takes 40us\n"
                             "  %a.again: f32[8] = my::relu(%h.again) clone of a\n"
                             "  %d: f32[8] = my::dot(%w.1, %a.again)\n"}}),
            "S07: 'h.again' does not compute 'h' again: it reads %w.1 where the original reads %w: "
            "'%h.again: f32[8] = my::mul(%x, %w.1) clone of h takes 40us' is to repeat '%h: f32[8] "
            "= my::mul(%x, %w) takes 40us'");
}

TEST(Proof, RefusesASnapshotOfTheNewVersion) {
  EXPECT_EQ(verdict(kStep, {{"my::mul(%x, %w) takes 40us\n",
                             "my::mul(%x, %w) takes 40us\n"
                             "  %w.copy: f32[8] = ebb::snapshot(%w)\n"},
                            {"my::dot(%w.1, %a)", "my::dot(%w.copy, %a)"}}),
            "S04: 'd' reads %w.copy (holds %w) where the original reads %w.1: '%d: f32[8] = "
            "my::dot(%w.1, %a)' became '%d: f32[8] = my::dot(%w.copy, %a)'");
}

TEST(Proof, RefusesAnUpdateOfACopy) {
  constexpr std::string_view kInPlace = R"(graph g {
  input %x: f32[8]
  %a: f32[8] = my::relu(%x)
  %a.1: f32[8] ~ %a = my::add_(%a!)
  return %x
}
)";
  EXPECT_EQ(verdict(kInPlace, {{"  %a.1: f32[8] ~ %a = my::add_(%a!)\n",
                                "  %k: f32[8] = ebb::snapshot(%a)\n"
                                "  %a.1: f32[8] ~ %k = my::add_(%k!)\n"}}),
            "S04: 'a.1' updates %k (holds %a) where the original updates %a: '%a.1: f32[8] ~ %a = "
            "my::add_(%a!)' became '%a.1: f32[8] ~ %k = my::add_(%k!)'");
}

TEST(Proof, RefusesAnUpdateThatBecameARead) {
  EXPECT_THAT(verdict(kStep, {{"my::add_(%w!, %g)", "my::add_(%w, %g)"}}),
              StartsWith("S04: 'w.1' reads %w where the original updates %w: '%w.1:"));
}

TEST(Proof, RefusesACloneWithAnotherOperand) {
  EXPECT_EQ(
      verdict(kStep, {{kDot,
                       "  %a.again: f32[8] = my::relu(%x) clone of a\n"
                       "  %d: f32[8] = my::dot(%w.1, %a.again)\n"}}),
      "S07: 'a.again' does not compute 'a' again: it reads %x where the original reads %h: "
      "'%a.again: f32[8] = my::relu(%x) clone of a' is to repeat '%a: f32[8] = my::relu(%h)'");
}

TEST(Proof, RefusesACloneThatKeepsAnotherPlaceInMemory) {
  EXPECT_THAT(
      verdict(kStep, {{kDot,
                       "  %h.again: f32[8] = my::mul(%x, %w.copy) clone of h takes 1us\n"
                       "  %d: f32[8] = my::dot(%w.1, %a)\n"},
                      {"  scalar $lr", "  %w.copy: f32[8] = ebb::snapshot(%w)\n  scalar $lr"}}),
      StartsWith("S07: 'h.again' does not compute 'h' again: the time is another"));
}

TEST(Proof, RefusesAnotherType) {
  EXPECT_EQ(
      verdict(kStep, {{"%s: f32[8] = my::sin", "%s: f16[8] = my::sin"}}),
      "S05: the type of a result of 's' changed: '%s: f32[8] = my::sin(%a)' became '%s: f16[8] = "
      "my::sin(%a)'");
}

TEST(Proof, RefusesOtherSharedBytes) {
  EXPECT_THAT(verdict(kStep, {{"%v: f32[4] ~ %a + 16B", "%v: f32[4] ~ %a"}}),
              StartsWith("S05: the place of a result of 'v' changed: '%"));
  EXPECT_THAT(verdict(kStep, {{"%v: f32[4] ~ %a + 16B", "%v: f32[4]"}}),
              StartsWith("S05: the place of a result of 'v' changed: '%"));
}

TEST(Proof, RefusesAViewOfAnotherOperand) {
  constexpr std::string_view kPick = R"(graph g {
  input %x: f32[8]
  input %y: f32[8]
  %v: f32[4] ~ %x = my::pick(%x, %y)
  return %v
}
)";
  EXPECT_THAT(verdict(kPick, {{"%v: f32[4] ~ %x", "%v: f32[4] ~ %y"}}),
              StartsWith("S05: the place of a result of 'v' changed: '"));
}

TEST(Proof, RefusesAMissingOutput) {
  EXPECT_EQ(
      verdict(kStep, {{"return %d, %s, %w.1", "return %d, %s"}}),
      "S08: the graph returns 2 tensors, the original 3: 'return %d, %s, %w.1' became 'return "
      "%d, %s'");
}

TEST(Proof, RefusesOutputsInAnotherOrder) {
  EXPECT_EQ(verdict(kStep, {{"return %d, %s", "return %s, %d"}}),
            "S08: output 1 is %s, in the original %d: 'return %d, %s, %w.1' became 'return %s, %d, "
            "%w.1'");
}

TEST(Proof, RefusesACopyInPlaceOfAnOutput) {
  EXPECT_THAT(verdict(kStep, {{"  return %d,", "  %k: f32[8] = ebb::snapshot(%d)\n  return %k,"}}),
              StartsWith("S08: output 1 is %k, in the original %d: 'return"));
}

TEST(Proof, RefusesAChangedAttribute) {
  EXPECT_THAT(verdict(kStep, {{"{dim = 0}", "{dim = 1}"}}),
              StartsWith("S03: an attribute of 'g' changed: '%g"));
  EXPECT_THAT(verdict(kStep, {{"{dim = 0}", "{dim = 0.0}"}}),
              StartsWith("S03: an attribute of 'g' changed: '%g"));
  EXPECT_THAT(verdict(kStep, {{"{dim = 0}", "{axis = 0}"}}),
              StartsWith("S03: an attribute of 'g' changed: '%g"));
  EXPECT_THAT(verdict(kStep, {{"{dim = 0}", "{dim = [0]}"}}),
              StartsWith("S03: an attribute of 'g' changed: '%g"));
  EXPECT_THAT(verdict(kStep, {{" {dim = 0}", ""}}),
              StartsWith("S03: an attribute of 'g' changed: '%g"));
  EXPECT_THAT(verdict(kStep, {{"{alpha = $lr}", "{alpha = $rate}"},
                              {"  scalar $lr: f64\n", "  scalar $lr: f64\n  scalar $rate: f64\n"}}),
              StartsWith("S02: the original has no 'ra"));
}

TEST(Proof, RefusesAnotherOfTwoScalars) {
  constexpr std::string_view kScalars = R"(graph g {
  scalar $a: f64
  scalar $b: f64
  $c: f64 = scalar::sub($a, $b)
  %t: f64[] = my::full() {value = $c, text = "x", raw = hex"00"}
  return %t
}
)";
  EXPECT_EQ(verdict(kScalars, {}), "4 nodes compute the same; added: nothing");
  EXPECT_EQ(verdict(kScalars, {{"sub($a, $b)", "sub($b, $a)"}}),
            "S03: a number among the arguments of 'c' changed: '$c: f64 = scalar::sub($a, $b)' "
            "became '$c: f64 = scalar::sub($b, $a)'");
  EXPECT_THAT(verdict(kScalars, {{"value = $c", "value = $a"}}),
              StartsWith("S03: an attribute of 't' changed:"));
  EXPECT_THAT(verdict(kScalars, {{"\"x\"", "\"y\""}}),
              StartsWith("S03: an attribute of 't' changed:"));
  EXPECT_THAT(verdict(kScalars, {{"hex\"00\"", "hex\"01\""}}),
              StartsWith("S03: an attribute of 't' changed:"));
}

TEST(Proof, RefusesAMissingNode) {
  EXPECT_EQ(verdict(kWorld, {{"  log: my::print(%w) effect\n", ""}}),
            "S01: the rewritten graph has no 'log', which the original has: 'log: my::print(%w) "
            "effect'");
}

TEST(Proof, RefusesANodeThatIsThereTwice) {
  EXPECT_EQ(
      verdict(kWorld, {{"  log: my::print(%w) effect\n",
                        "  log: my::print(%w) effect\n"
                        "  log2: my::print(%w) effect\n"}}),
      "S02: the original has no 'log2', and it is no copy and no clone of what it has: 'log2: "
      "my::print(%w) effect'");
}

TEST(Proof, RefusesASwapInOfAnotherTensor) {
  EXPECT_EQ(verdict(kStep, {{"  %s: f32[8] = my::sin(%a)\n",
                             "  %s: f32[8] = my::sin(%a)\n"
                             "  %s.host: f32[8] @host = ebb::swap_out(%s)\n"},
                            {kDot,
                             "  %s.back: f32[8] = ebb::swap_in(%s.host)\n"
                             "  %d: f32[8] = my::dot(%w.1, %s.back)\n"}}),
            "S04: 'd' reads %s.back (holds %s) where the original reads %a: '%d: f32[8] = "
            "my::dot(%w.1, %a)' became '%d: f32[8] = my::dot(%w.1, %s.back)'");
}

TEST(Proof, RefusesAReaderOfTheHostsCopy) {
  EXPECT_THAT(verdict(kStep, {{kRelu, kReluOut}, {"my::dot(%w.1, %a)", "my::dot(%w.1, %a.host)"}}),
              StartsWith("S04: 'd' reads %a.host (holds %a on the host) where the original reads"));
}

TEST(Proof, RefusesARenamedParameter) {
  EXPECT_EQ(verdict(kWorld, {{"param %w: f32[8]", "param %weight: f32[8]"},
                             {"my::print(%w)", "my::print(%weight)"},
                             {"~ %w = my::add_(%w!", "~ %weight = my::add_(%weight!"}}),
            "S01: the rewritten graph has no 'w', which the original has: 'param %w: f32[8]'");
}

TEST(Proof, RefusesADeclarationOfAnotherKind) {
  EXPECT_EQ(verdict(kWorld, {{"input %x", "const %x"}}),
            "S03: the kind of 'x' changed: 'input %x: f32[8]' became 'const %x: f32[8]'");
}

TEST(Proof, RefusesAChangedEffect) {
  EXPECT_EQ(
      verdict(kWorld, {{"%n: f32[8] = my::dropout(%x) random", "%n: f32[8] = my::dropout(%x)"}}),
      "S03: the effect of 'n' changed: '%n: f32[8] = my::dropout(%x) random' became '%n: "
      "f32[8] = my::dropout(%x)'");
}

TEST(Proof, RefusesAnotherOperatorDeviceTimeOrWorkspace) {
  const auto changed = [](std::string_view piece, std::string_view by) {
    return verdict(kStep, {{piece, by}}).substr(0, 30);
  };
  EXPECT_EQ(changed("my::sin", "my::cos"), "S03: the operator of 's' chang");
  EXPECT_EQ(changed("my::sin(%a)", "my::sin(%a) @\"cuda:1\""), "S03: the device of 's' changed");
  EXPECT_EQ(changed("takes 40us", "takes 41us"), "S03: the time of 'h' changed: ");
  EXPECT_EQ(changed("workspace 1KiB", "workspace 2KiB"), "S03: the workspace of 'g' chan");
}

TEST(Proof, RefusesAnotherNameOfALaterResult) {
  constexpr std::string_view kTwo = R"(graph g {
  %a: f32[8], %b: f32[8] = my::split()
  return %a
}
)";
  EXPECT_EQ(
      verdict(kTwo, {{"%b", "%c"}}),
      "S05: the name of a result of 'a' changed: '%a: f32[8], %b: f32[8] = my::split()' became "
      "'%a: f32[8], %c: f32[8] = my::split()'");
  EXPECT_THAT(verdict(kTwo, {{", %b: f32[8]", ""}}),
              StartsWith("S05: the number or kind of results of 'a' "));
}

TEST(Proof, QuotesAsMuchAsCanBeRead) {
  std::string many = "graph g {\n  input %x: f32[8]\n  %a: f32[8] = my::op(%x) {k = [";
  for (int i = 0; i < 200; ++i) many += fmt::format("{}1", i == 0 ? "" : ", ");
  many += "]}\n  return %x";
  for (int i = 0; i < 20; ++i) many += ", %x";
  many += "\n}\n";
  const std::string changed = verdict(many, {{"my::op", "my::po"}});
  EXPECT_THAT(changed, HasSubstr("1,  ...' became '"));
  EXPECT_LT(changed.size(), 800U);
  EXPECT_THAT(verdict(many, {{"  return %x,", "  return"}}), HasSubstr(" %x, ...' became 'return"));
}

TEST(Proof, RefusesACycle) {
  const Graph original = parse_valid(kStep).value();
  Graph rewritten = original;
  GraphEdit(rewritten).add_control(rewritten.find_node("a"), rewritten.find_node("b"));
  const auto proof = prove_same(original, rewritten);
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().code, "V13");
  EXPECT_THAT(proof.error().message,
              StartsWith("the rewritten graph is wrong by itself: the graph has a cycle: 'a' wai"));
}

}  // namespace
}  // namespace ebb
