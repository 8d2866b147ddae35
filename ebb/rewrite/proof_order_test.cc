// What the world sees stays in its order. Pairs of graphs, the second made from the first by
// replacing pieces of its text.
#include "ebb/rewrite/proof_order.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/rewrite/proof_test_step.h"
#include "ebb/rewrite/proof_test_text.h"

namespace ebb {
namespace {

TEST(Proof, RefusesACloneOfARandomOperation) {
  EXPECT_EQ(verdict(kWorld, {{"  %y: f32[8] = my::add(%m, %n)\n",
                              "  %m.again: f32[8] = my::dropout(%x) clone of m\n"
                              "  %y: f32[8] = my::add(%m.again, %n)\n"}}),
            "V21: the rewritten graph is wrong by itself: 'm.again' is a clone of 'm', but that is "
            "random and runs once: '%m.again: f32[8] = my::dropout(%x) clone of m'");
}

TEST(Proof, RefusesRandomOperationsInAnotherOrder) {
  EXPECT_EQ(verdict(kWorld, {{"  %m: f32[8] = my::dropout(%x) random\n", ""},
                             {"  log: my::print(%w) effect\n",
                              "  %m: f32[8] = my::dropout(%x) random\n"
                              "  log: my::print(%w) effect\n"}}),
            "S09: 'n' stands before 'm', which stands first in the original; operations that are "
            "random or have effects keep their order: '%n: f32[8] = my::dropout(%x) random' and "
            "'%m: f32[8] = my::dropout(%x) random'");
}

// Nothing but edges orders operations there.
TEST(Proof, LetsEffectsOfTensorFlowChangePlaces) {
  constexpr std::string_view kReads = R"(graph g {
  param %w: resource[]
  %a: f32[8] = tf::ReadVariableOp(%w) effect
  %b: f32[8] = tf::ReadVariableOp(%w) effect
  return %a, %b
}
)";
  EXPECT_EQ(verdict(kReads, {{"  %a: f32[8] = tf::ReadVariableOp(%w) effect\n", ""},
                             {"  return",
                              "  %a: f32[8] = tf::ReadVariableOp(%w) effect\n"
                              "  return"}}),
            "3 nodes compute the same; added: nothing");
}

TEST(Proof, RefusesACopyThatLetsOneEffectOvertakeAnother) {
  const Replacements copied = {{"  log: my::print(%w) effect\n",
                                "  %k: f32[8] = ebb::snapshot(%w)\n"
                                "  log: my::print(%k) effect\n"}};
  EXPECT_EQ(
      verdict(kWorld, copied),
      "S10: 'w.1' does not wait for 'log', which reads a copy of %w now, and effects that the "
      "original orders could overtake each other; add a control edge: '%w.1: f32[8] ~ %w = "
      "my::add_(%w!, %m)' and 'log: my::print(%k) effect'");
  Replacements ordered = copied;
  ordered.emplace_back("my::add_(%w!, %m)", "my::add_(%w!, %m) after log");
  EXPECT_EQ(verdict(kWorld, ordered),
            "8 nodes compute the same; added: 1 snapshot, 1 control edge");
}

TEST(Proof, RefusesACloneThatLetsOneEffectOvertakeAnother) {
  constexpr std::string_view kBarrier = R"(graph g {
  input %x: f32[8]
  first: my::print() effect
  %a: f32[8] = my::relu(%x) after first
  second: my::print(%a) effect
  return
}
)";
  constexpr std::string_view kSecond = "  second: my::print(%a) effect\n";
  EXPECT_EQ(verdict(kBarrier, {{kSecond,
                                "  %a.again: f32[8] = my::relu(%x) clone of a\n"
                                "  second: my::print(%a.again) effect\n"}}),
            "S10: 'a.again' does not wait for 'first', as the operation does that it repeats: '%a: "
            "f32[8] = my::relu(%x) after first' and '%a.again: f32[8] = my::relu(%x) clone of a'");
  EXPECT_EQ(verdict(kBarrier, {{kSecond,
                                "  %a.again: f32[8] = my::relu(%x) clone of a after a\n"
                                "  second: my::print(%a.again) effect\n"}}),
            "4 nodes compute the same; added: 1 clone, 1 control edge");
}

TEST(Proof, ADifferenceNamesTheNodesOfBothGraphs) {
  const Graph original = parse_valid(kWorld).value();
  const Graph rewritten =
      parse_valid(replaced(std::string(kWorld),
                           {{"  input %x: f32[8]\n", ""},
                            {"  param %w: f32[8]\n", "  param %w: f32[8]\n  input %x: f32[8]\n"},
                            {"my::add(%m, %n)", "my::add(%n, %m)"}}))
          .value();
  const auto proof = compare_computations(original, rewritten);
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().original, original.find_node("y"));
  EXPECT_EQ(proof.error().rewritten, rewritten.find_node("y"));
}

}  // namespace
}  // namespace ebb
