#include "ebb/import/derive_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/import/graphdef_for_tests.h"

namespace ebb {
namespace {

using for_tests::const_line;
using testing::ElementsAre;
using testing::Optional;

constexpr std::int64_t kOpen = TensorType::kUnknownDim;

// The shape of %it, behind tensors f32[8,?,4] and f32[2,3,4] and some constants.
std::optional<std::vector<std::int64_t>> shape_of(const std::string& line) {
  const auto parsed =
      parse("graph step {\n  input %x: f32[8,?,4]\n  input %y: f32[2,3,4]\n" +
            const_line("zero", {0}, false) + const_line("one", {1}, false) +
            const_line("ten", {10}, false) + const_line("three", {3}, false) +
            const_line("axes", {0, -1}) + const_line("none", {}) + const_line("turn", {2, 0, 1}) +
            const_line("rest", {3, -1}) + const_line("flat", {-1}) + const_line("wrong", {5, 5}) +
            const_line("lengths", {6, 7}) + "  %shape: i32[3] @host = tf::Shape(%x)\n  " + line +
            "\n  return %it\n}\n");
  if (!parsed) throw std::runtime_error(parsed.error().message);
  const Graph& graph = parsed->graph;
  KnownValues known(graph);
  for (const NodeId node : graph.order()) known.follow(node);
  return derive_shape(graph, known, graph.find_node("it"));
}

TEST(DeriveShape, FromTheOperandThatIsTheShape) {
  EXPECT_THAT(shape_of("%it: f32[?,?] = tf::Fill(%lengths, %ten)"), Optional(ElementsAre(6, 7)));
  EXPECT_THAT(shape_of("%it: f32[?,?,?] = tf::StatelessRandomUniformV2(%shape, %x, %x, %ten)"),
              Optional(ElementsAre(8, kOpen, 4)));
  EXPECT_THAT(shape_of("%it: f32[?,?] = tf::BroadcastTo(%ten, %lengths)"),
              Optional(ElementsAre(6, 7)));
  EXPECT_EQ(shape_of("%it: f32[?,?] = tf::Fill(%rest, %ten)"), std::nullopt);
}

TEST(DeriveShape, Reductions) {
  EXPECT_THAT(shape_of("%it: f32[?] = tf::Sum(%y, %axes) {keep_dims = false}"),
              Optional(ElementsAre(3)));
  EXPECT_THAT(shape_of("%it: f32[?,?,?] = tf::Mean(%x, %axes) {keep_dims = true}"),
              Optional(ElementsAre(1, kOpen, 1)));
  EXPECT_THAT(shape_of("%it: f32[?,?,?] = tf::Max(%y, %none)"), Optional(ElementsAre(2, 3, 4)));
  EXPECT_EQ(shape_of("%it: f32[?] = tf::Sum(%y, %wrong)"), std::nullopt);
  EXPECT_THAT(shape_of("%n: i32[2] @host = my::numbers()\n"
                       "  %it: f32[?,?] = tf::UnsortedSegmentSum(%y, %n, %ten)"),
              Optional(ElementsAre(10, 3, 4)));
}

TEST(DeriveShape, Reshape) {
  EXPECT_THAT(shape_of("%it: f32[?,?] ~ %y = tf::Reshape(%y, %rest)"), Optional(ElementsAre(3, 8)));
  EXPECT_THAT(shape_of("%it: f32[?] ~ %y = tf::Reshape(%y, %flat)"), Optional(ElementsAre(24)));
  EXPECT_THAT(shape_of("%it: f32[?,?] ~ %x = tf::Reshape(%x, %rest)"),
              Optional(ElementsAre(3, kOpen)));
  EXPECT_EQ(shape_of("%it: f32[?,?] ~ %y = tf::Reshape(%y, %wrong)"), std::nullopt);
}

TEST(DeriveShape, Broadcast) {
  EXPECT_THAT(shape_of("%a: f32[3,1] = my::op()\n  %it: f32[?,?,?] = tf::Mul(%a, %x)"),
              Optional(ElementsAre(8, 3, 4)));
  EXPECT_THAT(shape_of("%a: f32[?,1] = my::op()\n  %it: f32[?,?,?] = tf::Add(%x, %a)"),
              Optional(ElementsAre(8, kOpen, 4)));
  EXPECT_EQ(shape_of("%it: f32[?,?,?] = tf::Mul(%x, %y)"), std::nullopt);
}

TEST(DeriveShape, PiecesPutElsewhere) {
  EXPECT_THAT(shape_of("%it: f32[?,?,?] = tf::Transpose(%y, %turn)"),
              Optional(ElementsAre(4, 2, 3)));
  EXPECT_THAT(shape_of("%it: f32[?,?,?] = tf::ConcatV2([%y, %y], %one)"),
              Optional(ElementsAre(2, 6, 4)));
  EXPECT_THAT(shape_of("%it: f32[?,?,?] = tf::Tile(%y, %turn)"), Optional(ElementsAre(4, 0, 4)));
  EXPECT_THAT(shape_of("%n: i32[5,?] = my::numbers()\n"
                       "  %it: f32[?,?,?,?] = tf::GatherV2(%y, %n, %one) {batch_dims = 0}"),
              Optional(ElementsAre(2, 5, kOpen, 4)));
  EXPECT_THAT(shape_of("%n: i32[2] = my::numbers()\n"
                       "  %it: f32[?,?] = tf::GatherV2(%y, %n, %one) {batch_dims = 1}"),
              Optional(ElementsAre(2, 4)));
  EXPECT_THAT(shape_of("%it: i32[?] = tf::Range(%zero, %ten, %three)"), Optional(ElementsAre(4)));
}

TEST(DeriveShape, OtherOperatorsSayNothing) {
  EXPECT_EQ(shape_of("%it: f32[?] = my::op(%x)"), std::nullopt);
  EXPECT_EQ(shape_of("%m: i32[2] = my::op(%x)\n  %it: f32[?,?] = tf::Fill(%m, %ten)"),
            std::nullopt);
}

}  // namespace
}  // namespace ebb
