// What each option of the driver does, and what it says to wrong ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/lms_names.h"
#include "ebb/rewrite/lms_test_text.h"

namespace ebb {
namespace {

using testing::HasSubstr;

constexpr std::string_view kStep = R"(graph step {
  input %x: f32[64]
  %enc/a: f32[64] = my::conv(%x)
  %enc/b: f32[16] = my::relu.out(%enc/a)
  %dec/c: f32[64] = my::conv(%enc/b)
  %dec/d: f32[16] = my::relu.out(%dec/c)
  %loss: f32[] = my::sum(%dec/d)
  %gradients/loss: f32[] = my::one(%loss)
  %gradients/s: f32[] = my::scale(%gradients/loss)
  %gradients/d: f32[16] = my::df(%gradients/s, %dec/d)
  %gradients/c: f32[64] = my::df(%gradients/d, %dec/c)
  %gradients/b: f32[16] = my::df(%gradients/c, %enc/b)
  %gradients/a: f32[64] = my::df(%gradients/b, %enc/a)
  %gradients/x: f32[64] = my::df(%gradients/a, %x)
  return %gradients/x
}
)";

// The tensors swapped in kStep, in order.
std::string swapped(const LmsOptions& options) {
  const Graph graph = parse_valid(kStep).value();
  const auto plan = choose_swaps(graph, options);
  if (!plan) return plan.error().message;
  std::string out;
  for (const SwapDecision& swap : plan->swaps) {
    out += fmt::format("{}{}", out.empty() ? "" : " ", graph.name(swap.tensor));
  }
  return out;
}

TEST(LmsOptions, DefaultsSwapEverythingThatBackwardReads) {
  EXPECT_EQ(swapped({}), "x enc/a enc/b dec/c dec/d");
}

TEST(LmsOptions, OptimizerScopesSayWhereTheBackwardPhaseIs) {
  constexpr std::string_view kScopes = R"(graph step {
  input %x: f32[4]
  %a: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %adam2/d: f32[4] = my::f(%c, %a)
  %opt/adam/c: f32[4] = my::df(%adam2/d)
  %opt/adam/b: f32[4] = my::df(%opt/adam/c, %b)
  return %opt/adam/b
}
)";
  EXPECT_EQ(chosen(kScopes), "");
  const std::string expected =
      "swap %b for opt/adam/b after opt/adam/c\n"
      "left %adam2/d for opt/adam/c: the reader follows too closely: no level of γ is between\n";
  EXPECT_EQ(chosen(kScopes, {.optimizer_scopes = {"adam"}}), expected);
  EXPECT_EQ(chosen(kScopes, {.optimizer_scopes = {"opt/adam/"}}), expected);
}

TEST(LmsOptions, GradientScopesOfFrameworksAreKnown) {
  EXPECT_TRUE(in_gradient_scope("gradients/a"));
  EXPECT_TRUE(in_gradient_scope("adam/gradients_12/a"));
  EXPECT_TRUE(in_gradient_scope("call/gradient_tape/model/a"));
  EXPECT_TRUE(in_gradient_scope("gradient_tape_1/a"));
  EXPECT_FALSE(in_gradient_scope("gradients_/a"));
  EXPECT_FALSE(in_gradient_scope("gradients_a/a"));
  EXPECT_FALSE(in_gradient_scope("gradients2/a"));
  EXPECT_FALSE(in_gradient_scope("my_gradients/a"));
}

TEST(LmsOptions, ScopesAreWholeComponentsInARow) {
  EXPECT_TRUE(in_scope("a/b/c", "a"));
  EXPECT_TRUE(in_scope("a/b/c", "b/c"));
  EXPECT_TRUE(in_scope("ab/b/c", "b"));
  EXPECT_FALSE(in_scope("a/b/c", "a/c"));
  EXPECT_FALSE(in_scope("adam2/mul", "adam"));
  EXPECT_FALSE(in_scope("nadam/mul", "adam"));
  EXPECT_FALSE(in_scope("a.b/c", "a?b"));
  EXPECT_FALSE(in_scope("axb/c", "a.b"));
}

TEST(LmsOptions, StartingScopeAndStartingNamesAreTakenTogether) {
  EXPECT_EQ(swapped({.starting_scope = "dec"}), "dec/c dec/d");
  EXPECT_EQ(swapped({.starting_op_names = {"enc/b"}}), "enc/b dec/c dec/d");
  EXPECT_EQ(swapped({.starting_scope = "dec", .starting_op_names = {"enc/a"}}),
            "enc/a dec/c dec/d enc/b");
}

TEST(LmsOptions, ExcludedScopesAndTypesAreNotSwapped) {
  EXPECT_EQ(swapped({.excl_scopes = {"enc"}}), "x dec/c dec/d");
  EXPECT_EQ(swapped({.excl_types = {"my::conv"}}), "x enc/b dec/d");
  EXPECT_EQ(swapped({.excl_types = {"relu"}}), "x enc/a dec/c");
  EXPECT_EQ(swapped({.excl_scopes = {"enc"}, .excl_types = {"my::conv"}}), "x dec/d");
}

TEST(LmsOptions, IncludedScopesAndTypesAreWhitelists) {
  EXPECT_EQ(swapped({.incl_scopes = {"enc"}}), "enc/a enc/b");
  EXPECT_EQ(swapped({.incl_types = {"my::relu.out"}}), "enc/b dec/d");
  EXPECT_EQ(swapped({.incl_types = {"my::relu", "conv"}}), "enc/a enc/b dec/c dec/d");
  EXPECT_EQ(swapped({.incl_scopes = {"enc"}, .incl_types = {"conv"}}), "enc/a");
}

TEST(LmsOptions, ExclusionBeatsInclusion) {
  EXPECT_EQ(swapped({.excl_types = {"conv"}, .incl_scopes = {"enc"}}), "enc/b");
  EXPECT_EQ(swapped({.excl_scopes = {"enc"}, .incl_scopes = {"enc"}}), "");
}

TEST(LmsOptions, NTensorsTakesTheFirstOfTheWalk) {
  EXPECT_EQ(swapped({.n_tensors = 0}), "");
  EXPECT_EQ(swapped({.n_tensors = 1}), "x");
  EXPECT_EQ(swapped({.n_tensors = 3}), "x enc/a enc/b");
  EXPECT_EQ(swapped({.n_tensors = 100}), "x enc/a enc/b dec/c dec/d");
}

TEST(LmsOptions, NTensorsCountsOnlyWhatIsSwapped) {
  // %y comes first and finds no trigger.
  EXPECT_EQ(chosen(R"(graph step {
  input %y: f32[4]
  input %x: f32[4]
  %a: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%a)
  %loss: f32[4] = my::loss(%b, %y)
  %gradients/loss: f32[4] = my::df(%loss, %y)
  %gradients/a: f32[4] = my::df(%gradients/loss, %a)
  %gradients/x: f32[4] = my::df(%gradients/a, %x)
  return %gradients/x
}
)",
                   {.n_tensors = 1}),
            "swap %x for gradients/x after gradients/a\n"
            "left %y for gradients/loss: no trigger between lb and ub that the reader waits for\n");
}

TEST(LmsOptions, MinBytesKeepsSmallTensors) {
  EXPECT_EQ(swapped({.min_bytes = Bytes{64}}), "x enc/a enc/b dec/c dec/d");
  EXPECT_EQ(swapped({.min_bytes = Bytes{65}}), "x enc/a dec/c");
}

TEST(LmsOptions, TheStrategyDecidesTheTrigger) {
  EXPECT_THAT(chosen(kStep, {.ctrld_strategy = "chain_rule"}),
              HasSubstr("swap %dec/d for gradients/d after gradients/loss\n"));
  EXPECT_THAT(chosen(kStep, {.ctrld_strategy = "direct_order"}),
              HasSubstr("swap %dec/d for gradients/d after gradients/s\n"));
}

TEST(LmsOptions, TheCodecIsForTensorsThatItTakes) {
  EXPECT_EQ(chosen(kStep, {.n_tensors = 1, .codec = "bf16"}),
            "swap %x for gradients/x after gradients/a as bf16\n");
  EXPECT_EQ(chosen(kStep, {.n_tensors = 1, .codec = "bits"}),
            "swap %x for gradients/x after gradients/a\n");
}

// --- Fused swap-ins

// %a is read at γ = 5, 6 and 8; only the last two wait for gradients/b.
constexpr std::string_view kThreeReaders = R"(graph step {
  input %x: f32[4]
  %a: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%a)
  %l: f32[4] = my::f(%b)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/b: f32[4] = my::df(%gradients/l)
  %gradients/c: f32[4] = my::df(%gradients/b, %b)
  %gradients/r8: f32[4] = my::df(%gradients/c, %a)
  %gradients/r6: f32[4] = my::df(%gradients/b, %a)
  %gradients/r5: f32[4] = my::df(%gradients/l, %a)
  return %gradients/r8, %gradients/r6, %gradients/r5
}
)";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

TEST(LmsOptions, WithoutFusingEveryReaderHasItsSwapIn) {
  EXPECT_EQ(first_line(chosen(kThreeReaders, {.ctrld_strategy = "direct_order"})),
            "swap %a for gradients/r5 after gradients/l for gradients/r6 after gradients/b"
            " for gradients/r8 after gradients/c");
}
TEST(LmsOptions, FusedSwapInsTakeTheEarliestReadersTrigger) {
  EXPECT_EQ(
      first_line(chosen(kThreeReaders, {.ctrld_strategy = "direct_order", .fuse_swapins = true})),
      "swap %a for gradients/r5, gradients/r6, gradients/r8 after gradients/l");
}
TEST(LmsOptions, FuseDistanceCountsFromTheFirstReaderOfAGroup) {
  const auto fused = [](std::int64_t distance) {
    return first_line(chosen(
        kThreeReaders,
        {.ctrld_strategy = "direct_order", .fuse_swapins = true, .fuse_distance = distance}));
  };
  EXPECT_EQ(fused(0),
            "swap %a for gradients/r5 after gradients/l for gradients/r6 after gradients/b"
            " for gradients/r8 after gradients/c");
  EXPECT_EQ(fused(1),
            "swap %a for gradients/r5, gradients/r6 after gradients/l"
            " for gradients/r8 after gradients/c");
  EXPECT_EQ(fused(2), fused(10000));
}
TEST(LmsOptions, AReaderThatDoesNotWaitForTheTriggerIsInAnotherGroup) {
  EXPECT_EQ(first_line(chosen(R"(graph step {
  input %x: f32[4]
  %a: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%a)
  %l: f32[4] = my::f(%b)
  %gradients/l: f32[4] = my::df(%l)
  %gradients/b: f32[4] = my::df(%gradients/l, %b)
  %gradients/r6: f32[4] = my::df(%gradients/b, %a)
  %gradients/p: f32[4] = my::df(%gradients/l)
  %gradients/q: f32[4] = my::df(%gradients/p)
  %gradients/r7: f32[4] = my::df(%gradients/q, %a)
  %gradients/r8: f32[4] = my::df(%gradients/r6, %gradients/r7, %a)
  return %gradients/r8
}
)",
                              {.fuse_swapins = true})),
            "swap %a for gradients/r6, gradients/r8 after gradients/b"
            " for gradients/r7 after gradients/l");
}

// --- Wrong options

TEST(LmsOptions, UnknownScopesSuggestTheNearestAndListWhatExists) {
  const std::string most = " most operations are under 'gradients' (7), 'dec' (2), 'enc' (2)";
  EXPECT_EQ(swapped({.optimizer_scopes = {"gradient"}}),
            "optimizer_scopes: no operation is under 'gradient'; did you mean 'gradients'?" + most);
  EXPECT_EQ(swapped({.starting_scope = "layer1/conv"}),
            "starting_scope: no operation is under 'layer1/conv';" + most);
  EXPECT_EQ(swapped({.excl_scopes = {"dec", "enc/bb"}}),
            "excl_scopes: no operation is under 'enc/bb'; did you mean 'enc/b'?" + most);
  EXPECT_EQ(swapped({.incl_scopes = {"/"}}), "incl_scopes has an empty scope;" + most);
}
TEST(LmsOptions, AGraphWithoutScopesSaysSo) {
  EXPECT_EQ(chosen("graph g {\n  input %x: f32[4]\n  %a: f32[4] = my::f(%x)\n  return %a\n}\n",
                   {.optimizer_scopes = {"adam"}}),
            "optimizer_scopes: no operation is under 'adam'; "
            "no operation of the graph has a scope: no name has a '/'");
}
TEST(LmsOptions, UnknownTypesNamesAndStrategiesSuggestTheNearest) {
  EXPECT_EQ(swapped({.excl_types = {"my::covn"}}),
            "excl_types: no operation is of type 'my::covn'; did you mean 'my::conv'?");
  EXPECT_EQ(swapped({.incl_types = {"convolution"}}),
            "incl_types: no operation is of type 'convolution'");
  EXPECT_EQ(swapped({.starting_op_names = {"x", "enc/aa"}}),
            "starting_op_names: the graph has no operation 'enc/aa'; did you mean 'enc/a'?");
  EXPECT_EQ(swapped({.ctrld_strategy = "chain_rules"}),
            "ctrld_strategy is 'chain_rules'; it must be chain_rule or direct_order; "
            "did you mean 'chain_rule'?");
}
TEST(LmsOptions, UnknownCodecsListTheKnownOnes) {
  EXPECT_EQ(swapped({.codec = "bit"}),
            "codec: there is no 'bit', but bf16, bits; did you mean 'bits'?");
}
TEST(LmsOptions, AWalkDoesNotStartAtAVariable) {
  EXPECT_EQ(chosen("graph g {\n  param %w: f32[4]\n  %a: f32[4] = my::f(%w)\n  return %a\n}\n",
                   {.starting_op_names = {"w"}}),
            "starting_op_names: 'w' is no operation and no input; name one that reads it");
}
TEST(LmsOptions, NumbersOutOfRangeAreWrongUsage) {
  EXPECT_EQ(swapped({.lb = 0}),
            "lb is 0; it must be at least 1: a trigger stands at least one level away");
  EXPECT_EQ(swapped({.lb = 5, .ub = 4}),
            "lb is 5 and ub is 4; lb may not be larger: triggers are looked for from lb to ub");
  EXPECT_EQ(swapped({.n_tensors = -2}),
            "n_tensors is -2; it must be at least -1: -1 swaps all tensors, 0 none");
  EXPECT_THAT(swapped({.branch_threshold = -1}), HasSubstr("branch_threshold is -1"));
  EXPECT_THAT(swapped({.fuse_distance = -1}), HasSubstr("fuse_distance is -1"));
  EXPECT_THAT(swapped({.alpha = -1}), HasSubstr("alpha is -1"));
  EXPECT_THAT(swapped({.min_bytes = Bytes{-1}}), HasSubstr("min_bytes is -1"));
  const Graph graph = parse_valid(kStep).value();
  EXPECT_EQ(choose_swaps(graph, {.lb = 0}).error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace ebb
