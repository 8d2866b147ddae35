#include "ebb/order/frugal_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> order_of(std::string_view body) {
  const Graph graph = parse("graph step {\n" + std::string(body) + "\n}\n")->graph;
  std::vector<std::string> names;
  for (const NodeId node : find_frugal_order(graph)) names.emplace_back(graph.name(node));
  return names;
}

// Two gradients of 4 KiB, each used up by a sum: one after the other, not both at once.
TEST(FrugalOrder, WhatIsMadeIsUsedUpBeforeMoreIsMade) {
  EXPECT_THAT(order_of(R"(  input %x: f32[4]
  %a: f32[1024] = my::grow(%x)
  %b: f32[1024] = my::grow(%x)
  %sum.a: f32[] = my::sum(%a)
  %sum.b: f32[] = my::sum(%b)
  return %sum.a, %sum.b)"),
              ElementsAre("x", "a", "sum.a", "b", "sum.b"));
}

TEST(FrugalOrder, ControlEdgesHold) {
  EXPECT_THAT(order_of(R"(  input %x: f32[4]
  %a: f32[1024] = my::grow(%x)
  %b: f32[1024] = my::grow(%x)
  %sum.a: f32[] = my::sum(%a) after b
  %sum.b: f32[] = my::sum(%b)
  return %sum.a, %sum.b)"),
              ElementsAre("x", "a", "b", "sum.a", "sum.b"));
}

TEST(FrugalOrder, WhatNeedsNoLessStaysAsItIs) {
  EXPECT_THAT(order_of(R"(  input %x: f32[4]
  %b: f32[4] = my::f(%x)
  %a: f32[2] = my::g(%x)
  return %a, %b)"),
              ElementsAre("x", "b", "a"));
}

// The last reader of %big frees it, once the other one has run.
TEST(FrugalOrder, WhoIsLeftAsTheLastReaderComesFirst) {
  EXPECT_THAT(order_of(R"(  input %x: f32[4]
  %big: f32[1024] = my::grow(%x)
  %other: f32[512] = my::grow(%x)
  %small: f32[64] = my::f(%big)
  %smaller: f32[32] = my::f(%big)
  %end: f32[] = my::sum(%other)
  return %small, %smaller, %end)"),
              ElementsAre("x", "other", "end", "big", "smaller", "small"));
}

}  // namespace
}  // namespace ebb
