#include "ebb/import/known_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/import/graphdef_for_tests.h"

namespace ebb {
namespace {

using for_tests::const_line;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

// What %it holds.
std::optional<Elements> it_in(const std::string& body, std::string_view name = "it") {
  const auto parsed = parse("graph step {\n" + body + "  return %it\n}\n");
  if (!parsed) throw std::runtime_error(parsed.error().message);
  const Graph& graph = parsed->graph;
  KnownValues known(graph);
  for (const NodeId node : graph.order()) known.follow(node);
  const Elements* found = known.find(graph.find_tensor(name));
  return found == nullptr ? std::nullopt : std::optional(*found);
}

// Of one operator, behind constants and the shape of an f32[8,?,4].
std::optional<Elements> it(const std::string& line) {
  return it_in("  input %x: f32[8,?,4]\n" + const_line("zero", {0}, false) +
               const_line("one", {1}, false) + const_line("at0", {0}) + const_line("at1", {1}) +
               const_line("at2", {2}) + const_line("end", {-1}) + const_line("both", {0, 2}) +
               const_line("big", {2000000000}) + const_line("a", {7, -7, 6}) +
               const_line("b", {2, 2, 3}) + const_line("none", {}) +
               "  %shape: i32[3] @host = tf::Shape(%x)\n  " + line + "\n");
}

constexpr std::optional<std::int64_t> kUnknown = std::nullopt;

TEST(KnownValues, ShapesAndSizes) {
  EXPECT_THAT(it("%it: i32[3] @host = tf::Identity(%shape)"),
              Optional(ElementsAre(8, kUnknown, 4)));
  EXPECT_THAT(it("%it: i32[] @host = tf::Rank(%x)"), Optional(ElementsAre(3)));
  EXPECT_THAT(it("%it: i32[] @host = tf::Size(%x)"), Optional(ElementsAre(kUnknown)));
  EXPECT_THAT(it("%it: i32[] @host = tf::Size(%shape)"), Optional(ElementsAre(3)));
  EXPECT_THAT(it_in("  input %x: f32[2,3]\n  input %y: f32[4]\n"
                    "  %n: i32[2] @host, %it: i32[1] @host = tf::ShapeN([%x, %y])\n"),
              Optional(ElementsAre(4)));
}

TEST(KnownValues, PartsOfAShape) {
  const std::string flags = ", begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0}";
  EXPECT_THAT(it("%it: i32[] @host = tf::StridedSlice(%shape, %at2, %at2, %at1) "
                 "{shrink_axis_mask = 1" +
                 flags),
              Optional(ElementsAre(4)));
  EXPECT_THAT(it("%it: i32[2] @host = tf::StridedSlice(%shape, %at1, %at0, %at1) "
                 "{end_mask = 1}"),
              Optional(ElementsAre(kUnknown, 4)));
  EXPECT_THAT(it("%it: i32[2] @host = tf::StridedSlice(%shape, %at0, %end, %at1)"),
              Optional(ElementsAre(8, kUnknown)));
  EXPECT_THAT(it("%it: i32[3] @host = tf::StridedSlice(%shape, %at0, %at0, %end) "
                 "{begin_mask = 1, end_mask = 1}"),
              Optional(ElementsAre(4, kUnknown, 8)));
  EXPECT_THAT(it("%it: i32[0] @host = tf::StridedSlice(%shape, %at2, %at1, %at1)"),
              Optional(IsEmpty()));
  EXPECT_THAT(it("%it: i32[1] @host = tf::Slice(%shape, %at2, %end)"), Optional(ElementsAre(4)));
  EXPECT_THAT(it("%it: i32[2] @host = tf::GatherV2(%shape, %both, %zero) {batch_dims = 0}"),
              Optional(ElementsAre(8, 4)));
  EXPECT_THAT(it("%m: i32[] @host, %n: i32[] @host, %it: i32[] @host = tf::Unpack(%shape)"),
              Optional(ElementsAre(4)));
}

TEST(KnownValues, ListsPutTogether) {
  EXPECT_THAT(it("%it: i32[4] @host = tf::ConcatV2([%both, %both], %zero)"),
              Optional(ElementsAre(0, 2, 0, 2)));
  EXPECT_THAT(it("%it: i32[2] @host = tf::Pack([%one, %zero]) {axis = 0}"),
              Optional(ElementsAre(1, 0)));
  EXPECT_THAT(it("%y: i32[] @host = my::op(%x)\n"
                 "  %it: i32[2] @host = tf::Pack([%y, %one]) {axis = 0}"),
              Optional(ElementsAre(kUnknown, 1)));
  EXPECT_THAT(it("%it: i32[3] @host = tf::DynamicStitch([%both, %at1], [%both, %end])"),
              Optional(ElementsAre(0, -1, 2)));
  EXPECT_THAT(it("%it: i32[2] @host = tf::Fill(%at2, %one)"), Optional(ElementsAre(1, 1)));
  EXPECT_THAT(it("%two: i32[] @host = tf::Size(%both)\n"
                 "  %it: i32[2] @host = tf::Range(%zero, %two, %one)"),
              Optional(ElementsAre(0, 1)));
}

TEST(KnownValues, Arithmetic) {
  EXPECT_THAT(it("%it: i32[3] @host = tf::FloorDiv(%a, %b)"), Optional(ElementsAre(3, -4, 2)));
  EXPECT_THAT(it("%it: i32[3] @host = tf::FloorMod(%a, %b)"), Optional(ElementsAre(1, 1, 0)));
  EXPECT_THAT(it("%it: i32[3] @host = tf::Sub(%shape, %one)"),
              Optional(ElementsAre(7, kUnknown, 3)));
  EXPECT_THAT(it("%it: i32[3] @host = tf::Maximum(%one, %a)"), Optional(ElementsAre(7, 1, 6)));
  EXPECT_THAT(it("%it: i32[] @host = tf::Prod(%a, %at0)"), Optional(ElementsAre(-294)));
  EXPECT_THAT(it("%it: i32[] @host = tf::Prod(%none, %at0)"), Optional(ElementsAre(1)));
  EXPECT_THAT(it("%it: i32[3] @host = tf::Sum(%a, %none)"), Optional(ElementsAre(7, -7, 6)));
  EXPECT_THAT(it("%it: i64[3] @host = tf::Cast(%a)"), Optional(ElementsAre(7, -7, 6)));
}

TEST(KnownValues, AxesOfABroadcastGradient) {
  const std::string op =
      const_line("s", {8, 1, 4}) + const_line("t", {5, 4}) +
      "  %it: i32[?] @host, %other: i32[?] @host = tf::BroadcastGradientArgs(%s, %t)\n";
  EXPECT_THAT(it_in(op), Optional(ElementsAre(1)));
  EXPECT_THAT(it_in(op, "other"), Optional(ElementsAre(0)));
}

TEST(KnownValues, NothingIsGuessed) {
  EXPECT_EQ(it("%it: i32[3] @host = my::op(%a)"), std::nullopt) << "not an operator we know";
  EXPECT_EQ(it("%it: i32[2] @host = tf::Identity(%a)"), std::nullopt) << "the graph disagrees";
  EXPECT_EQ(it("%it: f32[3] = tf::Cast(%a)"), std::nullopt);
  EXPECT_EQ(it("%it: i32[1] @host = tf::GatherV2(%shape, %end, %zero)"), std::nullopt);
  EXPECT_EQ(it("%it: i32[?] @host = tf::Fill(%big, %one)"), std::nullopt) << "no shape is so long";
  EXPECT_THAT(it("%it: i32[1] @host = tf::Mul(%big, %big)"), Optional(ElementsAre(kUnknown)))
      << "an i32 overflows";
  EXPECT_THAT(it("%it: i32[1] @host = tf::FloorDiv(%at1, %at0)"), Optional(ElementsAre(kUnknown)));
}

}  // namespace
}  // namespace ebb
