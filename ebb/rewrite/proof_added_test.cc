// What rewriting may have added, and what only looks like it: copies and clones of every form, in
// and out of scopes. Pairs of graphs, the second made from the first by replacing pieces of it.
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/rewrite/proof_test_step.h"
#include "ebb/rewrite/proof_test_text.h"

namespace ebb {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kScopes = R"(graph g {
  branch then
  branch else
  input %x: f32[8]
  %a: f32[8] = my::relu(%x)
  %b: f32[8] = my::sin(%a) in then
  %c: f32[8] = my::sin(%b) in then
  %d: f32[8] = my::merge(%a, %c)
  return %d
}
)";

TEST(Proof, ACopyMayStandInTheBranchThatReadsIt) {
  EXPECT_EQ(verdict(kScopes, {{"  %b: f32[8] = my::sin(%a) in then\n",
                               "  %k: f32[8] = ebb::snapshot(%a) in then\n"
                               "  %b: f32[8] = my::sin(%k) in then\n"}}),
            "5 nodes compute the same; added: 1 snapshot");
}

TEST(Proof, RefusesACopyMadeInABranchForAReaderOutside) {
  EXPECT_EQ(
      verdict(kScopes, {{"  %d: f32[8] = my::merge(%a, %c)\n",
                         "  %k: f32[8] = ebb::snapshot(%a) in then\n"
                         "  %d: f32[8] = my::merge(%k, %c)\n"}}),
      "S04: 'd' reads %k (holds %a) from outside the branch in which that is made: '%d: f32[8] "
      "= my::merge(%a, %c)' became '%d: f32[8] = my::merge(%k, %c)'");
}

TEST(Proof, RefusesACloneOutsideTheBranchOfItsOriginal) {
  EXPECT_EQ(verdict(kScopes, {{"  %d: f32[8] = my::merge(%a, %c)\n",
                               "  %b.again: f32[8] = my::sin(%a) clone of b in else\n"
                               "  %d: f32[8] = my::merge(%a, %c)\n"}}),
            "S11: 'b.again' stands outside the scope of 'b', whose results it holds: '%b.again: "
            "f32[8] = my::sin(%a) clone of b in else' and '%b: f32[8] = my::sin(%a) in then'");
}

TEST(Proof, RefusesOtherScopes) {
  EXPECT_THAT(verdict(kScopes, {{"my::sin(%b) in then", "my::sin(%b) in else"}}),
              StartsWith("S03: the scope of 'c' change"));
  EXPECT_EQ(verdict(kScopes, {{"  branch else\n", "  frame else\n"}}),
            "S01: the rewritten graph has 'frame else' where the original has 'branch else'");
  EXPECT_EQ(verdict(kScopes, {{"  branch else\n", "  branch else\n  branch third\n"}}),
            "S02: the original has no 'branch third'; rewriting adds no scopes");
}

TEST(Proof, RefusesACopyThatDoesMore) {
  EXPECT_EQ(verdict(kStep, {{kRelu,
                             "  %a: f32[8] = my::relu(%h)\n"
                             "  %k: f32[8] = ebb::snapshot(%a) {scale = 2.0}\n"}}),
            "S06: 'k' has an attribute, which a copy has not: '%k: f32[8] = ebb::snapshot(%a) "
            "{scale = 2.0}'");
  EXPECT_EQ(verdict(kStep, {{kRelu,
                             "  %a: f32[8] = my::relu(%h)\n"
                             "  %k: f16[8] = ebb::snapshot(%a)\n"}}),
            "S06: 'k' makes f16[8] of f32[8], which it copies: '%k: f16[8] = ebb::snapshot(%a)'");
  EXPECT_EQ(verdict(kStep, {{kRelu,
                             "  %a: f32[8] = my::relu(%h)\n"
                             "  %k: f32[8] ~ %a = ebb::snapshot(%a)\n"}}),
            "S06: 'k' makes no copy, but a view: '%k: f32[8] ~ %a = ebb::snapshot(%a)'");
  EXPECT_EQ(
      verdict(kStep, {{kRelu,
                       "  %a: f32[8] = my::relu(%h)\n"
                       "  %k: f32[8] = ebb::snapshot(%a) random\n"}}),
      "S06: 'k' has an effect, which a copy has not: '%k: f32[8] = ebb::snapshot(%a) random'");
}

TEST(Proof, ACopyTakesOneTensorAndMakesOne) {
  for (const std::string_view copy :
       {"%k: f32[8] = ebb::snapshot(%a, %h)", "%k: f32[8] = ebb::snapshot(none)",
        "%k: f32[8] = ebb::snapshot([%a])", "%k: f32[8], %l: f32[8] = ebb::snapshot(%a)",
        "%k: f32[8] ~ %a = ebb::snapshot(%a!)", "k: ebb::snapshot(%a)"}) {
    const std::string lines = fmt::format("{}  {}\n", kRelu, copy);
    // Nobody else reads %a after the update.
    EXPECT_THAT(verdict("graph g {\n  input %h: f32[8]\n  %a: f32[8] = my::relu(%h)\n  return\n}\n",
                        {{kRelu, lines}}),
                StartsWith("S06: 'k' takes one tensor and makes one: '"))
        << copy;
  }
}

TEST(Proof, ACopyKeepsStridesAndRank) {
  constexpr std::string_view kTypes = R"(graph g {
  input %x: f32[2,2]
  input %y: f32[*]
  return
}
)";
  EXPECT_THAT(
      verdict(kTypes, {{"  return", "  %k: f32[2,2] strides [1,2] = ebb::snapshot(%x)\n  return"}}),
      StartsWith("S06: 'k' makes f32[2,2] strides [1,2] of f32[2,2], which it copies: '"));
  EXPECT_THAT(verdict(kTypes, {{"  return", "  %k: f32[] = ebb::snapshot(%y)\n  return"}}),
              StartsWith("S06: 'k' makes f32[] of f32[*], which it copies: '"));
}

TEST(Proof, RefusesAScalarInPlaceOfNoResult) {
  constexpr std::string_view kCall =
      "graph g {\n  input %x: f32[]\n  l: my::item(%x)\n  return\n}\n";
  EXPECT_THAT(verdict(kCall, {{"  l: my", "  $l: f64 = my"}}),
              StartsWith("S05: the number or kind of results of 'l' changed: '"));
}

TEST(Proof, RefusesAScalarOfAnotherType) {
  constexpr std::string_view kItem =
      "graph g {\n  input %x: f32[]\n  $l: f64 = my::item(%x)\n  return\n}\n";
  EXPECT_THAT(verdict(kItem, {{"$l: f64", "$l: i64"}}),
              StartsWith("S05: the type of 'l' changed: '"));
}

TEST(Proof, AScalarMayBeComputedAgain) {
  constexpr std::string_view kItem = R"(graph g {
  input %x: f32[]
  $l: f64 = my::item(%x)
  $m: f64 = scalar::add($l, 1.0)
  return
}
)";
  EXPECT_EQ(verdict(kItem, {{"  $m: f64 = scalar::add($l, 1.0)\n",
                             "  $k: f64 = my::item(%x) clone of l\n"
                             "  $m: f64 = scalar::add($k, 1.0)\n"}}),
            "3 nodes compute the same; added: 1 clone");
}

TEST(Proof, RefusesAnAttributeOfAnotherKind) {
  EXPECT_THAT(verdict(kStep, {{"{alpha = $lr}", "{alpha = 1.0}"}}),
              StartsWith("S03: an attribute of 'w.1' changed: '"));
  EXPECT_THAT(verdict(kStep, {{"{start = 4}", "{start = \"4\"}"}}),
              StartsWith("S03: an attribute of 'v' changed: '"));
}

TEST(Proof, RefusesACloneAboveItsOriginalThatHasMoreResults) {
  EXPECT_THAT(verdict(kStep, {{"  %a: f32[8] = my::relu(%h)\n",
                               "  %k: f32[8], %l: f32[8] = my::relu(%h) clone of a\n"
                               "  %a: f32[8], %n: f32[8] = my::relu(%h)\n"}}),
              StartsWith("S07: 'k' does not compute 'a' again: it has other results: '"));
}

TEST(Proof, RefusesACloneOfAViewThatHasItsOwnBytes) {
  EXPECT_THAT(verdict(kStep, {{"  %c: f32[4] = my::neg(%v)\n",
                               "  %k: f32[4] = my::slice(%a) {start = 4} clone of v\n"
                               "  %c: f32[4] = my::neg(%k)\n"}}),
              HasSubstr("%k lies elsewhere than a copy of %v would"));
}

TEST(Proof, RefusesACloneThatLiesInTheBytesOfItsOperand) {
  EXPECT_THAT(verdict(kStep, {{kDot,
                               "  %k: f32[8] ~ %h = my::relu(%h) clone of a\n"
                               "  %d: f32[8] = my::dot(%w.1, %k)\n"}}),
              HasSubstr("%k lies elsewhere than a copy of %a would"));
}

TEST(Proof, RefusesAnOperationThatRepeatsWhatWasAdded) {
  constexpr std::string_view kKept = R"(graph g {
  input %x: f32[8]
  %b: f32[8] = ebb::snapshot(%x)
  return %b
}
)";
  EXPECT_THAT(verdict(kKept, {{"  %b: f32[8] = ebb::snapshot(%x)\n",
                               "  %k: f32[8] = ebb::snapshot(%x)\n"
                               "  %b: f32[8] = ebb::snapshot(%x) clone of k\n"}}),
              StartsWith("S03: the original of 'b' changed: '"));
}

// What it reads while it writes decides what it computes.
TEST(Proof, WhatReadsTheBytesThatItUpdatesGoesOnDoingSo) {
  constexpr std::string_view kUpdate = R"(graph g {
  param %w: f32[8]
  %w.1: f32[8] ~ %w = my::add_(%w!, %w) effect
  return %w.1
}
)";
  EXPECT_THAT(verdict(kUpdate, {{"  %w.1: f32[8] ~ %w = my::add_(%w!, %w) effect\n",
                                 "  %k: f32[8] = ebb::snapshot(%w)\n"
                                 "  %w.1: f32[8] ~ %w = my::add_(%w!, %k) effect\n"}}),
              StartsWith("S04: 'w.1' reads %k (holds %w), and whether that lies in what it updates "
                         "is not as in the original: '"));
  constexpr std::string_view kCopied = R"(graph g {
  param %w: f32[8]
  %k: f32[8] = ebb::snapshot(%w)
  %w.1: f32[8] ~ %w = my::mm_(%w!, %k)
  return %w.1
}
)";
  EXPECT_THAT(verdict(kCopied, {{"my::mm_(%w!, %k)", "my::mm_(%w!, %w)"}}),
              StartsWith("S04: 'w.1' reads %w, and whether that lies in what it updates"));
}

constexpr std::string_view kNorm = R"(graph g {
  input %x: f32[8]
  param %m: f32[8]
  param %n: f32[8]
  log: my::log(%m) effect
  %y: f32[8], %m.1: f32[8] ~ %m, %n.1: f32[8] ~ %n = my::norm(%x, %m!, %n!)
  %z: f32[8] = my::op(%y)
  last: my::log(%z) effect
  return %z, %m.1, %n.1
}
)";
constexpr std::string_view kSnapshots =
    "  %s: f32[8] = ebb::snapshot(%m)\n"
    "  %t: f32[8] = ebb::snapshot(%n)\n"
    "  log: my::log(%m) effect\n";

TEST(Proof, AcceptsACloneThatUpdatesSnapshots) {
  EXPECT_EQ(verdict(kNorm, {{"  log: my::log(%m) effect\n", kSnapshots},
                            {"  %z: f32[8] = my::op(%y)\n",
                             "  %y.again: f32[8], %m.again: f32[8] ~ %s, %n.again: f32[8] ~ %t = "
                             "my::norm(%x, %s!, %t!) clone of y after y\n"
                             "  %z: f32[8] = my::op(%y.again)\n"}}),
            "7 nodes compute the same; added: 2 snapshots, 1 clone, 1 control edge");
}

TEST(Proof, RefusesACloneWhoseResultsLieInEachOthersPlace) {
  EXPECT_THAT(
      verdict(kNorm, {{"  log: my::log(%m) effect\n", kSnapshots},
                      {"  %z: f32[8] = my::op(%y)\n",
                       "  %y.again: f32[8], %m.again: f32[8] ~ %t, %n.again: f32[8] ~ %s = "
                       "my::norm(%x, %s!, %t!) clone of y after y\n"
                       "  %z: f32[8] = my::op(%y.again)\n"}}),
      StartsWith("S07: 'y.again' does not compute 'y' again: %m.again lies elsewhere than a "
                 "copy of %m.1 would"));
}

TEST(Proof, RefusesACloneThatDoesNotWaitForWhoReadsWhatTheOriginalUpdates) {
  EXPECT_THAT(verdict(kNorm, {{"  log: my::log(%m) effect\n", kSnapshots},
                              {"  %z: f32[8] = my::op(%y)\n",
                               "  %y.again: f32[8], %m.again: f32[8] ~ %s, %n.again: f32[8] ~ %t = "
                               "my::norm(%x, %s!, %t!) clone of y\n"
                               "  %z: f32[8] = my::op(%y.again)\n"}}),
              StartsWith("S10: 'y.again' does not wait for 'log'"));
}

TEST(Proof, ACloneReadsNoneOfTheSnapshotsThatItUpdates) {
  constexpr std::string_view kCopied = R"(graph g {
  input %x: f32[8]
  param %w: f32[8]
  %k: f32[8] = ebb::snapshot(%w)
  %y: f32[8], %w.1: f32[8] ~ %w = my::mm_(%x, %w!, %k)
  %z: f32[8] = my::op(%y)
  return %z, %w.1
}
)";
  EXPECT_THAT(
      verdict(kCopied,
              {{"  %y: f32[8], %w.1", "  %s: f32[8] = ebb::snapshot(%w)\n  %y: f32[8], %w.1"},
               {"  %z: f32[8] = my::op(%y)\n",
                "  %y.again: f32[8], %w.again: f32[8] ~ %s = my::mm_(%x, %s!, %s) clone of y after "
                "y\n  %z: f32[8] = my::op(%y.again)\n"}}),
      StartsWith("S07: 'y.again' does not compute 'y' again: it reads %s (holds %w), and whether "
                 "that lies in what it updates is not as in the original"));
}

TEST(Proof, RefusesACopyOfACopyOutsideItsBranch) {
  EXPECT_THAT(verdict(kScopes, {{"  %d: f32[8] = my::merge(%a, %c)\n",
                                 "  %k: f32[8] = ebb::snapshot(%a) in then\n"
                                 "  %l: f32[8] = ebb::snapshot(%k)\n"
                                 "  %d: f32[8] = my::merge(%l, %c)\n"}}),
              StartsWith("S06: 'l' reads %k from outside the branch in which that is made: '"));
}

TEST(Proof, RefusesACopyOutsideTheBranchOfWhatItCopies) {
  EXPECT_THAT(verdict(kScopes, {{"  %d: f32[8] = my::merge(%a, %c)\n",
                                 "  %k: f32[8] = ebb::snapshot(%c)\n"
                                 "  %d: f32[8] = my::merge(%a, %k)\n"}}),
              StartsWith("S11: 'k' stands outside the scope of 'c', whose results it holds: '"));
}

TEST(Proof, RefusesACopyInsideALoopOfWhatIsMadeOutside) {
  constexpr std::string_view kLoop = R"(graph g {
  frame loop
  input %x: f32[8]
  %a: f32[8] = my::relu(%x)
  %b: f32[8] = my::sin(%a) in loop
  return %a
}
)";
  EXPECT_THAT(verdict(kLoop, {{"  %b: f32[8] = my::sin(%a) in loop\n",
                               "  %k: f32[8] = ebb::snapshot(%a) in loop\n"
                               "  %b: f32[8] = my::sin(%k) in loop\n"}}),
              StartsWith("S11: 'k' stands outside the scope of 'a', whose results it holds: '"));
}

TEST(Proof, RefusesAScopeThatIsMissing) {
  EXPECT_EQ(verdict(kScopes, {{"  branch else\n", ""}}),
            "S01: the rewritten graph has no scope where the original has 'branch else'");
}

}  // namespace
}  // namespace ebb
