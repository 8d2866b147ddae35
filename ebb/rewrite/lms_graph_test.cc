// What counts as forward, backward or neither; seen by which edges the driver takes.
#include "ebb/rewrite/lms_graph.h"

#include <gtest/gtest.h>

#include "ebb/rewrite/lms_test_text.h"

namespace ebb {
namespace {

TEST(LmsPhases, WhatUpdatesVariablesUnderTheScopeOrFollowsIsNotBackward) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  param %w: f32[4]
  %a: f32[4] = my::f(%x, %w)
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %adam/gradients/c: f32[4] = my::df(%c)
  %adam/gradients/b: f32[4] = my::df(%adam/gradients/c, %b)
  %adam/update: f32[4] ~ %w = my::apply_(%w!, %adam/gradients/b, %a)
  %adam/after: f32[4] = my::f(%adam/update, %a)
  %adam/later: f32[4] = my::f(%x, %a) after adam/after
  return %adam/after, %adam/later
}
)",
                   {.optimizer_scopes = {"adam"}}),
            "swap %b for adam/gradients/b after adam/gradients/c\n"
            "left %c for adam/gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(LmsPhases, UpdatesThroughHandlesAreNotBackward) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  %h: resource[] @host = tf::VarHandleOp()
  %a: f32[4] = tf::ResourceGather(%h, %x) effect
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %sgd/gradients/c: f32[4] = my::df(%c)
  %sgd/gradients/a: f32[4] = tf::ResourceGather(%h, %sgd/gradients/c, %a) effect
  sgd/update: tf::ResourceApplyGradientDescent(%h, %sgd/gradients/a, %b) effect
  return %sgd/gradients/a
}
)",
                   {.optimizer_scopes = {"sgd"}}),
            "swap %a for sgd/gradients/a after sgd/gradients/c\n"
            "left %c for sgd/gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(LmsPhases, AForwardOperationThatUpdatesStatisticsIsForward) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  param %mean: f32[4]
  %a: f32[4], %mean.1: f32[4] ~ %mean = my::norm(%x, %mean!)
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %gradients/c: f32[4] = my::df(%c)
  %gradients/b: f32[4] = my::df(%gradients/c, %b)
  %gradients/a: f32[4] = my::df(%gradients/b, %a, %mean.1)
  return %gradients/a, %mean.1
}
)"),
            "swap %a for gradients/a after gradients/b\n"
            "swap %b for gradients/b after gradients/c\n"
            "left %c for gradients/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(LmsPhases, ASecondForwardPhaseReadsUpdatedVariables) {
  EXPECT_EQ(chosen(R"(graph two_steps {
  input %x: f32[4]
  param %w: f32[4]
  %gradients/w: f32[4] = my::df(%x, %w)
  %w.1: f32[4] ~ %w = my::sub_(%w!, %gradients/w)
  %a: f32[4] = my::f(%x, %w.1)
  %b: f32[4] = my::f(%a)
  %c: f32[4] = my::f(%b)
  %gradients_1/c: f32[4] = my::df(%c)
  %gradients_1/b: f32[4] = my::df(%gradients_1/c, %b)
  return %gradients_1/b, %w.1
}
)",
                   {.starting_op_names = {"b"}}),
            "swap %b for gradients_1/b after gradients_1/c\n"
            "left %c for gradients_1/c: "
            "the reader follows too closely: no level of γ is between\n");
}

TEST(LmsPhases, AnOptimizerOutsideTheScopesIsNoBranchOfTheForwardPhase) {
  EXPECT_EQ(chosen(R"(graph step {
  input %x: f32[4]
  param %w: f32[4]
  %a: f32[4] = my::f(%x, %w)
  %b: f32[4] = my::f(%a)
  %gradients/b: f32[4] = my::df(%b)
  %scaled: f32[4] = my::mul(%gradients/b)
  %more: f32[4] = my::mul(%scaled)
  %most: f32[4] = my::mul(%more)
  %w.1: f32[4] ~ %w = my::sub_(%w!, %scaled, %most, %a)
  return %w.1
}
)",
                   {.swap_branches = true, .branch_threshold = 1}),
            "left %b for gradients/b: "
            "the reader follows too closely: no level of γ is between\n");
}

}  // namespace
}  // namespace ebb
