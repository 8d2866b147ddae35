#include "ebb/order/in_place.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

// Whether %it could lie in the bytes of its node's first operand.
bool could(std::string_view body) {
  const Graph graph = parse("graph step {\n" + std::string(body) + "\n}\n")->graph;
  const TensorId it = graph.find_tensor("it");
  return could_take_over(graph, graph.producer(it), 0, 0);
}

TEST(InPlace, TensorFlowHandsOnWhatNobodyElseHolds) {
  EXPECT_TRUE(could(R"(  input %x: f32[4]
  %a: f32[4] = tf::Exp(%x)
  %b: f32[4] = tf::Exp(%a)
  %it: f32[4] = tf::Mul(%a, %b)
  return %it)"));
}

TEST(InPlace, InTensorFlowWhoFeedsATensorHoldsIt) {
  EXPECT_FALSE(could("  input %x: f32[4]\n  %it: f32[4] = tf::Exp(%x)\n  return %it"));
  EXPECT_TRUE(could("  input %x: f32[4]\n  %it: f32[4] = aten::exp(%x)\n  return %it"));
}

TEST(InPlace, InTensorFlowWhoReadsATensorTwiceHoldsIt) {
  constexpr std::string_view kSquare = R"(  input %x: f32[4]
  %a: f32[4] = tf::Exp(%x)
  %it: f32[4] = tf::Mul(%a, %a)
  return %it)";
  EXPECT_FALSE(could(kSquare));
  EXPECT_TRUE(could(R"(  input %x: f32[4]
  %a: f32[4] = aten::exp(%x)
  %it: f32[4] = aten::mul.Tensor(%a, %a)
  return %it)"));
}

TEST(InPlace, AVariableIsHeldByItself) {
  EXPECT_FALSE(could(R"(  %w: resource[] @host = tf::VarHandleOp() effect
  %read: f32[4] = tf::ReadVariableOp(%w) effect
  %it: f32[4] = tf::Exp(%read)
  return %it)"));
}

TEST(InPlace, ASumOfNothingHandsOnItsOperand) {
  constexpr std::string_view kSum = R"(  input %x: f32[4,5]
  const %axes: i32[?] @host
  %a: f32[4,5] = tf::Exp(%x)
)";
  EXPECT_TRUE(could(std::string(kSum) + "  %it: f32[4,5] = tf::Sum(%a, %axes)\n  return %it"));
  EXPECT_FALSE(could(std::string(kSum) + "  %it: f32[4] = tf::Sum(%a, %axes)\n  return %it"));
}

}  // namespace
}  // namespace ebb
