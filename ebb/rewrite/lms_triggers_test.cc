// The paper's Algorithms 1 and 2 on graphs where a slip would show. tests/meaning compares them
// with a plain reading of the paper on whole training steps.
#include "ebb/rewrite/lms_triggers.h"

#include <gtest/gtest.h>

#include "ebb/rewrite/lms_test_text.h"

namespace ebb {
namespace {

// --- Algorithm 1. In graphs without a backward phase; γ is the number in the name.

std::string by_level(std::string_view text, std::int64_t lb, std::int64_t ub = 10000) {
  return chosen(text, {.lb = lb, .ub = ub, .whole_graph = true, .alpha = 3});
}
std::string no_trigger(std::string_view edge) {
  return fmt::format("left {}: {}\n", edge, describe(LmsRefusal::kNoTrigger));
}

TEST(DirectOrder, BoundsAreDistancesToTheReaderBothIncluded) {
  constexpr std::string_view kChain = R"(graph chain {
  input %x: f32[4]
  %n1: f32[4] = my::f(%x)
  %n2: f32[4] = my::f(%n1)
  %n3: f32[4] = my::f(%n2)
  %n4: f32[4] = my::f(%n3)
  %n5: f32[4] = my::f(%n4)
  %n6: f32[4] = my::f(%n5, %n1)
  return %n6
}
)";
  EXPECT_EQ(by_level(kChain, 1), "swap %n1 for n6 after n5\n");
  EXPECT_EQ(by_level(kChain, 2), "swap %n1 for n6 after n4\n");
  EXPECT_EQ(by_level(kChain, 2, 2), "swap %n1 for n6 after n4\n");
  EXPECT_EQ(by_level(kChain, 3, 3), "swap %n1 for n6 after n3\n");
  // n2 has the γ of the swap-out, and does not come after it.
  EXPECT_EQ(by_level(kChain, 4), no_trigger("%n1 for n6"));
}

TEST(DirectOrder, ThreeLevelsAreTheLeast) {
  constexpr std::string_view kChain = R"(graph chain {
  input %x: f32[4] @host
  %n1: f32[4] = my::f(%x)
  %n2: f32[4] = my::f(%n1)
  %n3: f32[4] = my::f(%n2, %n1)
  %n4: f32[4] = my::f(%n3, %n1)
  return %n4
}
)";
  EXPECT_EQ(chosen(kChain, {.whole_graph = true, .alpha = 2}),
            "swap %n1 for n4 after n3\n"
            "left %n1 for n3: the reader follows too closely: no level of γ is between\n");
}

TEST(DirectOrder, TheReaderWaitsForTheTriggerWhichIsTheFirstInLineOrder) {
  EXPECT_EQ(by_level(R"(graph wide {
  input %x: f32[4]
  %n1: f32[4] = my::f(%x)
  %n2: f32[4] = my::f(%n1)
  %stray3: f32[4] = my::f(%n2)
  %left3: f32[4] = my::f(%n2)
  %right3: f32[4] = my::f(%n2)
  %n4: f32[4] = my::f(%right3, %left3, %n1)
  return %n4, %stray3
}
)",
                     1),
            "swap %n1 for n4 after left3\n");
}

TEST(DirectOrder, GoesDownUntilALevelHasACandidate) {
  // The host has no part in when the device is ready, and a view runs no code.
  constexpr std::string_view kGap = R"(graph gap {
  input %x: f32[4]
  %n1: f32[4] = my::f(%x)
  %n2: f32[4] = my::f(%n1)
  %n3: f32[4] = my::f(%n2)
  %n4: f32[2,2] ~ %n3 = aten::view(%n3)
  %n5: f32[4] @host = my::f(%n4)
  %n6: f32[4] = my::f(%n5, %n1)
  return %n6
}
)";
  EXPECT_EQ(by_level(kGap, 1), "swap %n1 for n6 after n3\n");
  EXPECT_EQ(by_level(kGap, 1, 3), "swap %n1 for n6 after n3\n");
  EXPECT_EQ(by_level(kGap, 1, 2), no_trigger("%n1 for n6"));
}

TEST(DirectOrder, WhatIsKnownOfAReaderIsRightForAllItsOperands) {
  // n3 serves %n1, and is too early for the swap-out of %m2, though looked at first for it.
  EXPECT_EQ(by_level(R"(graph two {
  input %x: f32[4]
  %n1: f32[4] = my::f(%x)
  %m2: f32[4] = my::f(%n1)
  %n3: f32[4] = my::f(%m2)
  %n4: f32[2,2] ~ %n3 = aten::view(%n3)
  %n5: f32[4] = my::f(%n4, %m2, %n1)
  return %n5
}
)",
                     1),
            "swap %n1 for n5 after n3\n" + no_trigger("%m2 for n5"));
}

TEST(DirectOrder, WaitingThroughAVariableCounts) {
  // n4 waits for m3 only because m3 updates what n4 reads; γ does not see that.
  EXPECT_EQ(by_level(R"(graph variable {
  input %x: f32[4]
  param %w: f32[4]
  %n1: f32[4] = my::f(%x)
  %n2: f32[4] = my::f(%n1)
  %w.1: f32[4] ~ %w = my::set_(%w!, %n2)
  %n3: f32[2,2] ~ %n2 = aten::view(%n2)
  %n4: f32[4] = my::f(%n3, %w.1, %n1)
  return %n4, %w.1
}
)",
                     1),
            "swap %n1 for n4 after w.1\n");
}

// --- Algorithm 2

// The line about %u, among those for other tensors.
std::string for_u(std::string_view text, std::int64_t lb, std::int64_t ub = 10000) {
  const std::string all = chosen(text, {.lb = lb, .ub = ub});
  std::size_t begin = all.find("swap %u ");
  if (begin == std::string::npos) begin = all.find("left %u ");
  return begin == std::string::npos ? all : all.substr(begin, all.find('\n', begin) + 1 - begin);
}

// From u, level 1 is {p, q}, level 2 is {r}, level 3 is {l}: q is not in level 2 as well, though p
// leads to it.
constexpr std::string_view kSkip = R"(graph skip {
  input %x: f32[4]
  %u: f32[4] = my::f(%x)
  %p: f32[4] = my::f(%u)
  %q: f32[4] = my::f(%p, %u)
  %r: f32[4] = my::f(%q)
  %l: f32[4] = my::f(%r)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/r: f32[4] = my::df(%gradients/l, %r)
  %gradients/q: f32[4] = my::df(%gradients/r, %q)
  %gradients/p: f32[4] = my::df(%gradients/q, %p)
  %gradients/u: f32[4] = my::df(%gradients/p, %u)
  return %gradients/u
}
)";

TEST(ChainRule, BoundsAreLevelsOfForwardOperationsFromTheProducer) {
  EXPECT_EQ(for_u(kSkip, 1), "swap %u for gradients/u after gradients/p\n");
  EXPECT_EQ(for_u(kSkip, 2), "swap %u for gradients/u after gradients/r\n");
  EXPECT_EQ(for_u(kSkip, 3), "swap %u for gradients/u after gradients/l\n");
  EXPECT_EQ(for_u(kSkip, 4), no_trigger("%u for gradients/u"));
}
TEST(ChainRule, TheSearchEndsBeforeLevelUb) {
  EXPECT_EQ(for_u(kSkip, 1, 2), "swap %u for gradients/u after gradients/p\n");
  EXPECT_EQ(for_u(kSkip, 1, 1), no_trigger("%u for gradients/u"));
  EXPECT_EQ(for_u(kSkip, 3, 4), "swap %u for gradients/u after gradients/l\n");
  EXPECT_EQ(for_u(kSkip, 3, 3), no_trigger("%u for gradients/u"));
}

TEST(ChainRule, OfAWholeLevelTheLargestGammaIsTaken) {
  EXPECT_EQ(for_u(R"(graph level {
  input %x: f32[4]
  %u: f32[4] = my::f(%x)
  %p: f32[4] = my::f(%u)
  %q: f32[4] = my::f(%u)
  %o: f32[4] = my::f(%u)
  %l: f32[4] = my::f(%p, %q, %o)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/p: f32[4] = my::df(%gradients/l, %p)
  %gradients/q: f32[4] = my::df(%gradients/p, %q)
  %gradients/o: f32[4] = my::df(%gradients/l, %o)
  %gradients/u: f32[4] = my::df(%gradients/q, %gradients/o, %u)
  return %gradients/u
}
)",
                  1),
            "swap %u for gradients/u after gradients/q\n");
}
TEST(ChainRule, OfEqualGammaTheFirstInLineOrderIsTaken) {
  EXPECT_EQ(for_u(R"(graph level {
  input %x: f32[4]
  %u: f32[4] = my::f(%x)
  %p: f32[4] = my::f(%u)
  %q: f32[4] = my::f(%u)
  %l: f32[4] = my::f(%p, %q)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/q: f32[4] = my::df(%gradients/l, %q)
  %gradients/p: f32[4] = my::df(%gradients/l, %p)
  %gradients/u: f32[4] = my::df(%gradients/p, %gradients/q, %u)
  return %gradients/u
}
)",
                  1),
            "swap %u for gradients/u after gradients/q\n");
}

TEST(ChainRule, TheReaderIsReachableFromTheTriggerAtAnyDistance) {
  // gradients/wb has the larger γ, and nobody waits for it.
  EXPECT_EQ(for_u(R"(graph reach {
  input %x: f32[4]
  %u: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%u)
  %l: f32[4] = my::f(%b)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/b: f32[4] = my::df(%gradients/l, %b)
  %gradients/t: f32[4] = my::df(%gradients/l)
  %gradients/wb: f32[4] = my::dw(%gradients/t, %b)
  %gradients/s: f32[4] = my::df(%gradients/b)
  %gradients/u: f32[4] = my::df(%gradients/s, %u)
  return %gradients/u, %gradients/wb
}
)",
                  1),
            "swap %u for gradients/u after gradients/b\n");
}

TEST(ChainRule, ATriggerComesBeforeTheReaderInGamma) {
  // Of what level 1 leads to, gradients/b reads %u itself and gradients/l alone comes before it.
  EXPECT_EQ(for_u(R"(graph self {
  input %x: f32[4]
  %u: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%u)
  %l: f32[4] = my::f(%b)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/b: f32[4] = my::df(%gradients/l, %b, %u)
  %gradients/c: f32[4] = my::df(%gradients/b, %b)
  return %gradients/c
}
)",
                  1),
            "swap %u for gradients/b after gradients/l\n");
}

TEST(ChainRule, EqualGammaIsNotBefore) {
  // gradients/u waits for gradients/b through the variable, which γ does not count: both have 5.
  EXPECT_EQ(for_u(R"(graph variable {
  input %x: f32[4]
  param %w: f32[4]
  %u: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%u)
  %l: f32[4] = my::f(%b)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/b: f32[4] = my::df(%gradients/l, %b)
  %w.1: f32[4] ~ %w = my::sub_(%w!, %gradients/b)
  %gradients/u: f32[4] = my::df(%gradients/l, %u, %w.1)
  return %gradients/u, %w.1
}
)",
                  1),
            "swap %u for gradients/u after gradients/l\n");
}

TEST(ChainRule, FollowsForwardOperationsOnlyAndLooksThroughViews) {
  // gradients/z is reached through backward operations alone. The view stands between u and b, and
  // is no level of its own.
  EXPECT_EQ(for_u(R"(graph views {
  input %x: f32[4]
  %u: f32[4] = my::f(%x)
  %u.view: f32[2,2] ~ %u = aten::view(%u)
  %b: f32[4] = my::f(%u.view)
  %l: f32[4] = my::f(%b)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/z: f32[4] = my::df(%gradients/l)
  %gradients/b.view: f32[2,2] ~ %b = aten::view(%b)
  %gradients/b: f32[4] = my::df(%gradients/z, %gradients/b.view)
  %gradients/y: f32[4] = my::df(%gradients/b)
  %gradients/u: f32[4] = my::df(%gradients/y, %u)
  return %gradients/u
}
)",
                  1),
            "swap %u for gradients/u after gradients/b\n");
}

}  // namespace
}  // namespace ebb
