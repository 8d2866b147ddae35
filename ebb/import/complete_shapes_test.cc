#include "ebb/import/complete_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/verify.h"

namespace ebb {
namespace {

// The type of %it, with a batch of 8.
std::string type_of(std::string_view body) {
  Graph graph = parse("graph step {\n" + std::string(body) + "\n}\n")->graph;
  complete_shapes(graph, 8);
  return to_text(graph.type(graph.find_tensor("it")));
}

TEST(CompleteShapes, TheFirstDimensionOfWhatComesInIsTheBatch) {
  EXPECT_EQ(type_of("  input %it: f32[?,224,224,3]\n  return %it"), "f32[8,224,224,3]");
  EXPECT_EQ(type_of("  input %it: f32[16,?]\n  return %it"), "f32[16,?]");
}

TEST(CompleteShapes, AnOpenDimensionIsWhatItIsInAnOperand) {
  EXPECT_EQ(type_of(R"(  input %x: f32[?,4]
  param %w: f32[4,5]
  %it: f32[?,5] = tf::MatMul(%x, %w)
  return %it)"),
            "f32[8,5]");
  EXPECT_EQ(type_of(R"(  input %x: f32[?,4,6]
  %it: f32[4,?,6] = tf::Transpose(%x)
  return %it)"),
            "f32[4,8,6]");
}

TEST(CompleteShapes, AViewHasAsManyElements) {
  EXPECT_EQ(type_of(R"(  input %x: f32[?,16,4]
  %a: f32[?,16,4] = tf::Relu(%x)
  %flat: f32[?,4] ~ %a = tf::Reshape(%a)
  param %w: f32[4,5]
  %it: f32[?,5] = tf::MatMul(%flat, %w)
  return %it)"),
            "f32[128,5]");
  EXPECT_EQ(type_of(R"(  input %x: f32[?,4]
  %a: f32[?,4] = tf::Relu(%x)
  %it: f32[?,?,?,?] ~ %a = tf::Reshape(%a)
  return %it)"),
            "f32[8,1,1,4]");
}

TEST(CompleteShapes, WhatAnElementwiseOperatorMakesSaysWhatItReads) {
  EXPECT_EQ(type_of(R"(  input %x: f32[?,6,4]
  %it: f32[?,?,?] = tf::Sum(%x)
  %y: f32[?,6,4] = tf::Relu(%x)
  %z: f32[?,6,4] = tf::ReluGrad(%it, %y)
  return %z)"),
            "f32[8,6,4]");
}

TEST(CompleteShapes, WhatIsMadeByAShapeHasIt) {
  EXPECT_EQ(type_of(R"(  input %x: f32[?,32,4]
  %a: f32[?,?,4] = tf::Relu(%x)
  %shape: i32[3] @host = tf::Shape(%a)
  %it: f32[?,?,4] = tf::StatelessRandomUniformV2(%shape)
  return %it)"),
            "f32[8,32,4]");
  EXPECT_EQ(type_of(R"(  input %x: f32[?,32,4]
  %any: i32[3] @host = my::shape(%x)
  %it: f32[?,?,4] = tf::StatelessRandomUniformV2(%any)
  return %it)"),
            "f32[8,?,4]")
      << "nothing says what it is";
}

// As in the gradient of a sparse cross-entropy that adds up in a fixed order: 8 * 10 segments.
TEST(CompleteShapes, SizesAreComputedOnTheWay) {
  EXPECT_EQ(type_of(R"(  input %x: f32[?,10]
  %shape: i32[2] @host = tf::Shape(%x)
  %rows: i32[] @host, %columns: i32[] @host = tf::Unpack(%shape)
  %all: i32[] @host = tf::Mul(%rows, %columns)
  %y: f32[?] = my::op(%x)
  %places: i64[?] = my::op(%x)
  %sums: f32[?] = tf::UnsortedSegmentSum(%y, %places, %all)
  %it: f32[?,10] ~ %sums = tf::Reshape(%sums, %shape)
  return %it)"),
            "f32[8,10]");
}

TEST(CompleteShapes, WhereTheGraphSaysAnotherShapeTheGraphCounts) {
  EXPECT_EQ(type_of(R"(  input %x: f32[?,4]
  %shape: i32[2] @host = tf::Shape(%x)
  %it: f32[?,5] = tf::Fill(%shape, %x)
  return %it)"),
            "f32[8,5]");
}

TEST(CompleteShapes, AViewThatWouldBeLargerThanItsBytesStaysOpen) {
  EXPECT_EQ(type_of(R"(  input %x: f32[?,4]
  param %w: f32[2,2]
  %it: f32[?,3] ~ %w = tf::Reshape(%w, %x)
  return %it)"),
            "f32[?,3]");
}

TEST(CompleteShapes, WhatHasNoRankIsTakenToBeEmpty) {
  Graph graph = parse(R"(graph step {
  input %x: f32[4]
  %a: f32[4], %kept: f32[*], %list: variant[*] = my::norm(%x)
  return %a
}
)")
                    ->graph;
  EXPECT_THAT(empty_unranked(graph), testing::ElementsAre(graph.find_tensor("kept")));
  EXPECT_EQ(to_text(graph.type(graph.find_tensor("kept"))), "f32[0]");
}

TEST(CompleteShapes, WhatHasNoRankHasAsManyBytesAsAViewOfIt) {
  Graph graph = parse(R"(graph step {
  input %x: f32[4,6]
  %a: f32[*] = my::norm(%x)
  %b: f32[3,8] ~ %a = tf::Reshape(%a, %x)
  %c: f32[*] = my::norm(%x)
  %d: u8[5] ~ %c = tf::Bitcast(%c)
  return %b
}
)")
                    ->graph;
  EXPECT_THAT(empty_unranked(graph), testing::IsEmpty());
  EXPECT_EQ(to_text(graph.type(graph.find_tensor("a"))), "f32[24]");
  EXPECT_EQ(to_text(graph.type(graph.find_tensor("c"))), "f32[2]") << "not less than its view";
  EXPECT_THAT(find_violations(graph, 1), testing::IsEmpty());
}

TEST(CompleteShapes, TypesCanBePutBack) {
  const Graph original = parse("graph step {\n  input %it: f32[?,4]\n  return %it\n}\n")->graph;
  Graph graph = original;
  complete_shapes(graph, 8);
  restore_types(graph, original);
  EXPECT_EQ(to_text(graph.type(graph.find_tensor("it"))), "f32[?,4]");
}

}  // namespace
}  // namespace ebb
