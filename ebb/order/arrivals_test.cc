#include "ebb/order/arrivals.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/order/liveness.h"

namespace ebb {
namespace {

// %x, 400 bytes, is fed from the host; 'a' and 'gw' of the GPU read it. %n is where a kernel of the
// GPU leaves it, for another of that GPU.
constexpr std::string_view kFed = R"(graph step {
  input %x: f32[100] @host @"/device:CPU:0"
  %a: f32[25] = tf::F(%x) @"/device:GPU:0" takes 100ns
  %n: i32[10] @host = tf::Shape(%a) @"/device:GPU:0"
  %b: f32[25] = tf::F(%a, %n) @"/device:GPU:0" takes 100ns
  %gw: f32[1] = tf::G(%x, %b) @"/device:GPU:0" takes 100ns
  %c: f32[25] = tf::F(%gw) @"/device:GPU:0" takes 100ns
  return %c
}
)";

TEST(Arrivals, WhatTheDeviceReadsFromTheHostIsThereUntilItsLastReader) {
  const Graph graph = parse_valid(kFed).value();
  const auto arrivals = find_arrivals(graph);
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(graph.name(graph.root(arrivals[0].storage)), "x");
  EXPECT_EQ(arrivals[0].size, Bytes{400});
  EXPECT_EQ(arrivals[0].first, 0U);
  EXPECT_EQ(graph.name(graph.order()[arrivals[0].last]), "gw");
  const MemoryCurve curve = memory_curve(graph, find_lives(graph));
  EXPECT_EQ(curve.device[0], Bytes{400});
  EXPECT_EQ(curve.peak, Bytes{600});  // %x, %a and %b
  EXPECT_EQ(curve.device.back(), Bytes{104});
  EXPECT_EQ(find_floor(graph).bytes, Bytes{504});  // 'gw': %x, %b and %gw
}

TEST(Arrivals, OneThatTheHostMakesComesWhenItIsMade) {
  const Graph graph = parse_valid(R"(graph step {
  input %x: f32[100] @host @"/device:CPU:0"
  %a: f32[25] = tf::F() @"/device:GPU:0"
  %h: f32[100] @host = tf::F(%x) @"/device:CPU:0"
  %b: f32[25] = tf::F(%a, %h) @"/device:GPU:0"
  return %b
}
)")
                          .value();
  const auto arrivals = find_arrivals(graph);
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].first, 2U);
  EXPECT_EQ(arrivals[0].last, 3U);
}

// Its runtime hands kernels what the host has.
TEST(Arrivals, StepsOfPyTorchHaveNone) {
  const Graph graph = parse_valid(R"(graph step {
  input %x: f32[] @host
  input %y: f32[8]
  %a: f32[8] = aten::mul(%y, %x)
  return %a
}
)")
                          .value();
  EXPECT_TRUE(find_arrivals(graph).empty());
}

}  // namespace
}  // namespace ebb
