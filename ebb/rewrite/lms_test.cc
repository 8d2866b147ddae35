// Which edges the driver takes. Where triggers come from is in lms_triggers_test.cc, what options
// do in lms_options_test.cc.
#include "ebb/rewrite/lms.h"

#include <gtest/gtest.h>

#include "ebb/rewrite/lms_rewrite.h"
#include "ebb/rewrite/lms_test_text.h"

namespace ebb {
namespace {

TEST(Lms, SwapsWhatTheBackwardPhaseReads) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[64]
  param %w: f32[64]
  %a: f32[64] = my::f(%x, %w)
  %b: f32[64] = my::f(%a)
  %loss: f32[] = my::sum(%b)
  %gradients/loss: f32[] = my::one(%loss)
  %gradients/b: f32[64] = my::df(%gradients/loss, %b)
  %gradients/a: f32[64] = my::df(%gradients/b, %a)
  %gradients/x: f32[64] = my::df(%gradients/a, %x, %w)
  %w.1: f32[64] ~ %w = my::sub_(%w!, %gradients/x)
  return %loss, %w.1
}
)"),
            "swap %x for gradients/x after gradients/a\n"
            "swap %a for gradients/a after gradients/b\n"
            "swap %b for gradients/b after gradients/loss\n"
            "left %loss for gradients/loss: "
            "the reader follows too closely: no level of γ is between\n");
}

// γ as printed: f1 10, f4 11, f3 18, f2 25; α = 5.
constexpr std::string_view kFigure4 = R"(graph figure4 {
  input %x: f32[4]
  %n1: f32[4] = my::f(%x)
  %n2: f32[4] = my::f(%n1)
  %n3: f32[4] = my::f(%n2)
  %n4: f32[4] = my::f(%n3)
  %n5: f32[4] = my::f(%n4)
  %n6: f32[4] = my::f(%n5)
  %n7: f32[4] = my::f(%n6)
  %n8: f32[4] = my::f(%n7)
  %n9: f32[4] = my::f(%n8)
  %f1: f32[4] = my::f(%n9)
  %f4: f32[4] = my::f(%f1)
  %n12: f32[4] = my::f(%f4)
  %n13: f32[4] = my::f(%n12)
  %n14: f32[4] = my::f(%n13)
  %n15: f32[4] = my::f(%n14)
  %n16: f32[4] = my::f(%n15)
  %n17: f32[4] = my::f(%n16)
  %f3: f32[4] = my::f(%n17, %f1)
  %n19: f32[4] = my::f(%f3)
  %n20: f32[4] = my::f(%n19)
  %n21: f32[4] = my::f(%n20)
  %n22: f32[4] = my::f(%n21)
  %n23: f32[4] = my::f(%n22)
  %n24: f32[4] = my::f(%n23)
  %f2: f32[4] = my::f(%n24, %f1)
  return %f2
}
)";

TEST(Lms, Figure4AtAlpha5RewritesTheEdgesToF2AndF3) {
  EXPECT_EQ(chosen(kFigure4, {.whole_graph = true, .alpha = 5}),
            "swap %f1 for f3 after n17 for f2 after n24\n");
}
TEST(Lms, Figure4HasTheTriggersOfThePaperAtTheirDistances) {
  EXPECT_EQ(chosen(kFigure4, {.lb = 5, .whole_graph = true, .alpha = 5}),
            "swap %f1 for f3 after n13 for f2 after n20\n");
  EXPECT_EQ(chosen(kFigure4, {.lb = 3, .whole_graph = true, .alpha = 5}),
            "swap %f1 for f3 after n15 for f2 after n22\n");
}
TEST(Lms, AlphaItselfIsFarEnough) {
  EXPECT_EQ(chosen(kFigure4, {.whole_graph = true, .alpha = 8}),
            "swap %f1 for f3 after n17 for f2 after n24\n");
  EXPECT_EQ(chosen(kFigure4, {.whole_graph = true, .alpha = 9}), "swap %f1 for f2 after n24\n");
  EXPECT_EQ(chosen(kFigure4, {.whole_graph = true, .alpha = 16}), "");
}
TEST(Lms, Figure4FusedIsOneSwapInForBoth) {
  EXPECT_EQ(chosen(kFigure4, {.fuse_swapins = true, .whole_graph = true, .alpha = 5}),
            "swap %f1 for f3, f2 after n17\n");
}

TEST(Lms, InferenceSwapsNothingButBranches) {
  constexpr std::string_view kForward = R"(graph inference {
  input %x: f32[4]
  %a: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %d: f32[4] = my::f(%c)
  %e: f32[4] = my::add(%d, %a)
  return %e
}
)";
  EXPECT_EQ(chosen(kForward), "");
  EXPECT_EQ(chosen(kForward, {.swap_branches = true, .branch_threshold = 3}),
            "swap %a for e after d\n");
  EXPECT_EQ(chosen(kForward, {.swap_branches = true, .branch_threshold = 4}), "");
}

TEST(Lms, BranchesUseDirectOrderWhateverTheStrategy) {
  // The chain rule from %a would go to %b, whose only backward reader comes long after %e.
  constexpr std::string_view kBranch = R"(graph step {
  input %x: f32[4]
  %a: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %d: f32[4] = my::f(%c)
  %e: f32[4] = my::add(%d, %a)
  %gradients/e: f32[4] = my::df(%e)
  %gradients/b: f32[4] = my::df(%gradients/e, %b)
  return %gradients/b
}
)";
  EXPECT_EQ(chosen(kBranch, {.lb = 2, .swap_branches = true, .branch_threshold = 3}),
            "swap %a for e after c\n"
            "swap %b for gradients/b after gradients/e\n"
            "left %e for gradients/e: "
            "the reader follows too closely: no level of γ is between\n");
}

// --- What is read through views

TEST(Lms, ConsumersAreFoundThroughViewsAndTheStorageIsSwappedOnce) {
  EXPECT_EQ(chosen(R"(graph views {
  input %x: f32[8,8]
  %a: f32[8,8] = my::f(%x)
  %a.row: f32[64] ~ %a = aten::view(%a)
  %a.t: f32[8,8] strides [1,8] ~ %a = aten::t(%a)
  %b: f32[8,8] = my::f(%a.row)
  %c: f32[8,8] = my::f(%b)
  %gradients/c: f32[8,8] = my::df(%c)
  %gradients/b: f32[8,8] = my::df(%gradients/c, %b)
  %gradients/a.t: f32[8,8] strides [1,8] ~ %a = aten::t(%a)
  %gradients/a: f32[8,8] = my::df(%gradients/b, %a.t, %gradients/a.t, %a)
  %gradients/w: f32[8,8] = my::dw(%gradients/a, %a.row)
  return %gradients/w
}
)"),
            "swap %a for gradients/a after gradients/b for gradients/w after gradients/b\n"
            "swap %b for gradients/b after gradients/c\n"
            "left %c for gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(Lms, AViewIsNoTriggerAsItRunsNoCode) {
  EXPECT_EQ(chosen(R"(graph views {
  input %x: f32[4]
  %a: f32[4] = my::f(%x)
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %c.view: f32[2,2] ~ %c = aten::view(%c)
  %d: f32[4] = my::add(%c.view, %a)
  return %d
}
)",
                   {.swap_branches = true, .branch_threshold = 3}),
            "swap %a for d after c\n");
}

TEST(Lms, WhatHasAViewThatCannotBeMadeAgainIsLeftAlone) {
  // %a: by an operation that makes something else too; %x: given from outside; %c: after the update
  // of what the view's maker reads.
  EXPECT_EQ(chosen(R"(graph mixed {
  input %x: f32[4]
  input %y: f32[2] ~ %x
  param %w: f32[4]
  %a: f32[4] = my::f(%x)
  %b: f32[4], %b.same: f32[4] ~ %a = my::both(%a)
  %c: f32[4] = my::f(%b)
  %c.as_w: f32[4] ~ %c = aten::view_as(%c, %w)
  %d: f32[4] = my::f(%c)
  %e: f32[4] = my::f(%d)
  %f: f32[4] = my::add(%e, %b.same, %y, %c.as_w)
  %w.1: f32[4] ~ %w = my::sub_(%w!, %f)
  return %w.1
}
)",
                   {.whole_graph = true, .alpha = 3}),
            "left %x for f: it has a view that cannot be made again on a copy\n"
            "left %a for f: it has a view that cannot be made again on a copy\n"
            "left %c for f: it has a view that cannot be made again on a copy\n");
}

// --- What stays where it is

TEST(Lms, VariablesAndConstantsAreNeverMoved) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  param %w: f32[4]
  param %mean: f32[4]
  const %c: f32[4]
  %a: f32[4], %mean.1: f32[4] ~ %mean = my::norm(%x, %w, %mean!, %c)
  %w.t: f32[4] ~ %w = aten::t(%w)
  %b: f32[4] = my::f(%a)
  %d: f32[4] = my::f(%b)
  %gradients/d: f32[4] = my::df(%d)
  %gradients/b: f32[4] = my::df(%gradients/d, %w, %w.t, %mean.1, %c)
  return %gradients/b, %mean.1
}
)"),
            "left %d for gradients/d: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(Lms, VariablesBehindHandlesAreNeverMoved) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  %h: resource[] @host = tf::VarHandleOp()
  %w: f32[4] = tf::ReadVariableOp(%h) effect
  %a: f32[4] = tf::Mul(%x, %w)
  %b: f32[4] = tf::Relu(%a)
  %gradients/b: f32[4] = tf::ReluGrad(%b)
  %gradients/c: f32[4] = tf::Mul(%gradients/b, %w)
  %gradients/a: f32[4] = tf::Mul(%gradients/c, %a)
  return %gradients/a
}
)",
                   {.starting_op_names = {"w", "h"}}),
            "swap %a for gradients/a after gradients/b\n"
            "left %b for gradients/b: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(Lms, ProducerAndConsumerAreOnTheAccelerator) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4] @host
  %a: f32[4] = my::f(%x)
  %h: f32[4] @host = my::f(%a)
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %gradients/c: f32[4] = my::df(%b)
  %gradients/b: f32[4] = my::df(%gradients/c, %h, %x)
  %gradients/a: f32[4] @host = my::df(%gradients/b, %a)
  $gradients/s: f64 = aten::_local_scalar_dense(%a)
  return %gradients/a
}
)"),
            "left %b for gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(Lms, WhatHasNoBytesToMoveIsPassedOver) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  %a: f32[4], %a.none: u8[0], %a.words: string[4], %a.any: f32[?] = my::f(%x)
  %b: f32[4] = my::f(%a)
  %gradients/b: f32[4] = my::df(%b)
  %gradients/c: f32[4] = my::df(%gradients/b)
  %gradients/a: f32[4] = my::df(%gradients/c, %a.none, %a.words, %a.any)
  return %gradients/a
}
)"),
            "swap %a.any for gradients/a after gradients/b\n"
            "left %b for gradients/b: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(Lms, BytesThatAreUpdatedInPlaceAreLeftAlone) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  %a: f32[4] = my::f(%x)
  %a.1: f32[4] ~ %a = my::relu_(%a!)
  %b: f32[4] = my::f(%a.1)
  %c: f32[4] = my::f(%b)
  %gradients/c: f32[4] = my::df(%b)
  %gradients/a: f32[4] = my::df(%gradients/c, %a.1)
  return %gradients/a
}
)"),
            "left %a for gradients/a: its bytes are updated in place\n"
            "left %b for gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(Lms, ReadersOnOtherDevicesAndInOtherControlFlowAreLeftAlone) {
  EXPECT_EQ(chosen(R"(graph step {
  branch then
  input %x: f32[4]
  %a: f32[4] = my::f(%x) @"cuda:1"
  %b: f32[4] = my::f(%a) @"cuda:1"
  %c: f32[4] = my::f(%b) @"cuda:1"
  %gradients/c: f32[4] = my::df(%c) @"cuda:1"
  %gradients/b: f32[4] = my::df(%gradients/c, %a) @"cuda:1" in then
  %gradients/a: f32[4] = my::df(%gradients/c, %a) @"cuda:2"
  return %gradients/a
}
)"),
            "left %a for gradients/b: producer and reader are in different loops or branches\n"
            "left %a for gradients/a: producer and reader are on different devices\n"
            "left %c for gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(Lms, ARewrittenGraphIsNotRewrittenAgain) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  %a: f32[4] = my::f(%x)
  %a.host: f32[4] @host = ebb::swap_out(%a)
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %gradients/c: f32[4] = my::df(%c)
  %a.back: f32[4] = ebb::swap_in(%a.host) after gradients/c
  %gradients/b: f32[4] = my::df(%gradients/c, %a.back)
  %gradients/d: f32[4] = my::df(%gradients/b)
  %gradients/a: f32[4] = my::df(%gradients/d, %a.back)
  %gradients/w: f32[4] = my::df(%gradients/a, %a)
  return %gradients/w
}
)"),
            "left %a for gradients/w: it is swapped already\n"
            "left %c for gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

// --- The walk

TEST(Lms, WalksBreadthFirstInLineOrder) {
  // From %y and %x, in the order of their lines, then level by level.
  constexpr std::string_view kTwoInputs = R"(graph step {
  input %y: f32[4]
  input %x: f32[4]
  %ax: f32[4] = my::f(%x)
  %bx: f32[4] = my::f(%ax)
  %ay: f32[4] = my::f(%y)
  %by: f32[4] = my::f(%ay)
  %c: f32[4] = my::f(%bx, %by)
  %gradients/c: f32[4] = my::df(%c)
  %gradients/d: f32[4] = my::df(%gradients/c, %bx, %by)
  %gradients/e: f32[4] = my::df(%gradients/d, %ax, %ay, %x, %y)
  return %gradients/e
}
)";
  EXPECT_EQ(chosen(kTwoInputs),
            "swap %y for gradients/e after gradients/d\n"
            "swap %x for gradients/e after gradients/d\n"
            "swap %ay for gradients/e after gradients/d\n"
            "swap %ax for gradients/e after gradients/d\n"
            "swap %by for gradients/d after gradients/c\n"
            "swap %bx for gradients/d after gradients/c\n"
            "left %c for gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(Lms, ReadersOfSeveralResultsAreVisitedInLineOrder) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  %a: f32[4], %b: f32[4] = my::split(%x)
  %from_b: f32[4] = my::f(%b)
  %from_a: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%from_a, %from_b)
  %gradients/c: f32[4] = my::df(%from_a, %from_b) after c
  %gradients/d: f32[4] = my::df(%gradients/c, %from_a, %from_b)
  return %gradients/d
}
)",
                   {.ctrld_strategy = "direct_order"}),
            "swap %from_b for gradients/d after gradients/c\n"
            "swap %from_a for gradients/d after gradients/c\n"
            "left %from_b for gradients/c: "
            "the reader follows too closely: no level of γ is between\n"
            "left %from_a for gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(Lms, AGraphFedByOperationsIsWalkedFromThem) {
  EXPECT_EQ(chosen(R"(graph step {
  %next: f32[4] = tf::IteratorGetNext() effect
  %a: f32[4] = my::f(%next)
  %b: f32[4] = my::f(%a)
  %gradients/b: f32[4] = my::df(%b)
  %gradients/a: f32[4] = my::df(%gradients/b, %a)
  return %gradients/a
}
)"),
            "swap %a for gradients/a after gradients/b\n"
            "left %b for gradients/b: "
            "the reader follows too closely: no level of γ is between\n");
}

// --- The summary

TEST(Lms, TheSummaryTellsWhatIsSwappedThePeakAndWhatWasLeft) {
  const Graph graph = parse_valid(R"(graph step {
  input %x: f32[256]
  %a: f32[256] = my::f(%x)
  %b: f32[?] = my::f(%a)
  %gradients/b: f32[256] = my::df(%b)
  %gradients/a: f32[256] = my::df(%gradients/b, %a, %b)
  %gradients/x: f32[256] = my::df(%gradients/a, %x)
  return %gradients/x
}
)")
                          .value();
  const LmsPlan plan = choose_swaps(graph, {.min_bytes = Bytes{1024}}).value();
  EXPECT_EQ(plan.swaps.size(), 2U);
  EXPECT_EQ(plan.swap_ins, 2U);
  EXPECT_EQ(plan.bytes, Bytes{2048});
  EXPECT_EQ(lms_summary(graph, rewrite_by_lms(graph, {.min_bytes = Bytes{1024}}).value()),
            "Swapped: 2 tensors, 2.0 KiB; 2 swap-ins\n"
            "Backward phase: 3 operations\n"
            "Peak before: 4.0 KiB at 'gradients/a'; after: 3.0 KiB at 'gradients/a'; on the host: "
            "2.0 KiB\n"
            "Left alone: 2 edges\n"
            "       2  the reader follows too closely: no level of γ is between; "
            "first: %b for 'gradients/b'\n");
}

TEST(Lms, TheSummarySaysWhenThereIsNoBackwardPhase) {
  const Graph graph =
      parse_valid("graph g {\n  input %x: f32[4]\n  %a: f32[4] = my::f(%x)\n  return %a\n}\n")
          .value();
  EXPECT_EQ(
      lms_summary(graph, rewrite_by_lms(graph, {}).value()),
      "Nothing is swapped.\n"
      "Backward phase: none. No operation is under 'gradients', 'gradient_tape' or a scope in\n"
      "  optimizer_scopes; swap_branches and whole_graph still apply\n"
      "Peak before: 32 B at 'a'\n");
}

}  // namespace
}  // namespace ebb
