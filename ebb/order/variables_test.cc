#include "ebb/order/variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/order/liveness.h"

namespace ebb {
namespace {

Graph graph_of(std::string_view body) {
  return parse("graph step {\n" + std::string(body) + "\n}\n")->graph;
}

TEST(Variables, WhatIsReadWholeIsTheVariableAndCountsOnceThroughoutTheStep) {
  const Graph graph = graph_of(R"(  input %x: f32[256]
  %w: resource[] @host = tf::VarHandleOp() effect
  %read: f32[256] = tf::ReadVariableOp(%w) effect
  %again: f32[256] = tf::ReadVariableOp(%w) effect
  %y: f32[256] = tf::Mul(%x, %read)
  %z: f32[256] = tf::Mul(%y, %again)
  return %z)");
  const Variables variables = find_variables(graph);
  ASSERT_EQ(variables.on_device.size(), 1U);
  EXPECT_EQ(variables.device_bytes, Bytes{1024});
  const MemoryCurve curve = memory_curve(graph, find_lives(graph));
  EXPECT_EQ(curve.device.front(), Bytes{1024 + 1024});  // %x and the variable
  EXPECT_EQ(curve.peak, Bytes{1024 + 2 * 1024});        // and %y; then %y and %z
}

TEST(Variables, AnOptimizersStateIsAsLargeAsItsGradient) {
  const Graph graph = graph_of(R"(  input %g: f32[256]
  input %lr: f32[]
  %w: resource[] @host = tf::VarHandleOp() effect
  %m: resource[] @host = tf::VarHandleOp() effect
  %v: resource[] @host = tf::VarHandleOp() effect
  apply: tf::ResourceApplyAdam(%w, %m, %v, %lr, %g) effect
  return)");
  EXPECT_EQ(find_variables(graph).device_bytes, Bytes{3 * 1024});
}

TEST(Variables, WhatIsReadInPartsIsNotKnownByThat) {
  const Graph graph = graph_of(R"(  input %rows: i32[4]
  input %g: f32[4,8]
  %w: resource[] @host = tf::VarHandleOp() effect
  %some: f32[4,8] = tf::ResourceGather(%w, %rows) effect
  apply: tf::ResourceSparseApplyMomentum(%w, %g, %rows) effect
  return %some)");
  EXPECT_EQ(find_variables(graph).device_bytes, Bytes{});
}

TEST(Variables, OfTheHostAreNotTheDevices) {
  const Graph graph = graph_of(R"(  %w: resource[] @host = tf::VarHandleOp() effect
  %read: f32[256] @host = tf::ReadVariableOp(%w) effect
  return %read)");
  EXPECT_THAT(find_variables(graph).on_device, testing::IsEmpty());
}

}  // namespace
}  // namespace ebb
