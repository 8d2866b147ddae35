#include "ebb/plan/splits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/plan/device.h"
#include "ebb/plan/plan.h"

namespace ebb {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

// The first call has a bias, the second none, the third cannot be split.
constexpr std::string_view kStep = R"(graph step {
  input %g: f32[25]
  param %w: f32[25]
  input %x: f32[75]
  %a: f32[75], %b: f32[25], %c: f32[2] = aten::convolution_backward(%g, %x, %w) {output_mask = [true, true, true]}
  %d: f32[75], %e: f32[25] = aten::convolution_backward(%b, %x, %w) {output_mask = [true, true, false]}
  %f: f32[25] = aten::convolution_backward(%e, %x, %w) {output_mask = [false, true, false]}
  return %a, %d, %f
}
)";

TEST(Splits, AreOfWhatTheRuleLetsBeSplit) {
  const Graph graph = parse_valid(kStep).value();
  EXPECT_EQ(find_splittable(graph), (std::vector{graph.find_node("a"), graph.find_node("d")}));
}

// Workspaces of a graph add up to 2^62 bytes at most: 2^62 - 2^60 are there, and 2^60 can come.
TEST(Splits, AreAsManyAsThereIsRoomFor) {
  std::string text(kStep);
  for (const std::string_view mask : {"[true, true, true]}", "[true, true, false]}"}) {
    text.insert(text.find(mask) + mask.size(), " workspace 1152921504606846000B");
  }
  text.insert(text.find("[false, true, false]}") + 21, " workspace 1152921504606846000B");
  const Graph graph = parse_valid(text).value();
  EXPECT_EQ(find_splittable(graph), std::vector{graph.find_node("a")});
}

TEST(Splits, LeaveIdsAsTheyAre) {
  const Graph graph = parse_valid(kStep).value();
  const std::vector<NodeId> calls = find_splittable(graph);
  const Graph split = with_splits(graph, calls);
  for (const NodeId node : graph.nodes()) EXPECT_EQ(split.name(node), graph.name(node));
  EXPECT_EQ(split.find_node("b").index(), graph.node_count());
  EXPECT_EQ(split.find_node("e").index(), graph.node_count() + 1);
  EXPECT_EQ(print(with_splits(graph, {})), print(graph));
}

Profile profile_of(const Graph& graph, std::string_view name, Duration time, Bytes workspace) {
  return Profile::make("table", {{signature(graph, graph.find_node(name)), time, workspace}})
      .value();
}

TEST(Splits, AreInAProfileHalfOfTheirCallWithItsWorkspace) {
  const Graph graph = parse_valid(kStep).value();
  const Graph split = with_splits(graph, find_splittable(graph));
  const Profile known = with_halves(profile_of(graph, "a", 7ns, Bytes{100}), graph);
  EXPECT_EQ(known.operations().size(), 3);
  const auto* weight = known.find(signature(split, split.find_node("b")));
  const auto* input = known.find(signature(split, split.find_node("a")));
  ASSERT_TRUE(weight != nullptr && input != nullptr);
  EXPECT_EQ(weight->time, 4ns);
  EXPECT_EQ(input->time, 3ns);
  EXPECT_EQ(weight->workspace, Bytes{100});
  EXPECT_EQ(input->workspace, Bytes{100});
}

TEST(Splits, ThatWereMeasuredStayAsTheyWereMeasured) {
  const Graph graph = parse_valid(kStep).value();
  const Graph split = with_splits(graph, find_splittable(graph));
  const Profile measured =
      Profile::make("table", {{signature(graph, graph.find_node("a")), 7ns, Bytes{100}},
                              {signature(split, split.find_node("a")), 2ns, Bytes{8}}})
          .value();
  const Profile known = with_halves(measured, graph);
  EXPECT_EQ(known.find(signature(split, split.find_node("a")))->time, 2ns);
  EXPECT_EQ(known.find(signature(split, split.find_node("b")))->time, 4ns);
}

// 'a' and 'd' have the same half for the input.
TEST(Splits, HavePerhapsOneHalfInCommonAndThenTheLargerCounts) {
  const Graph graph = parse_valid(kStep).value();
  const Profile measured =
      Profile::make("table", {{signature(graph, graph.find_node("a")), 6ns, Bytes{100}},
                              {signature(graph, graph.find_node("d")), 8ns, Bytes{50}}})
          .value();
  const Graph split = with_splits(graph, find_splittable(graph));
  const Profile known = with_halves(measured, graph);
  EXPECT_EQ(known.operations().size(), 5);
  const auto* half = known.find(signature(split, split.find_node("d")));
  EXPECT_EQ(half->time, 4ns);
  EXPECT_EQ(half->workspace, Bytes{100});
}

TEST(Splits, ThatAreInNoProfileAreLeftToTheModel) {
  const Graph graph = parse_valid(kStep).value();
  const Profile other = profile_of(graph, "f", 7ns, Bytes{100});
  EXPECT_EQ(with_halves(other, graph), other);
}

// 'a' holds 900 bytes, %g, %w, %x, %a and %b, and 'm' 500 and %m. To split 'a' saves 300.
TEST(Splits, AreWantedWhereTheySaveMoreThanIsBetweenThemAndThePeak) {
  constexpr std::string_view kPeak = R"(graph step {{
  input %g: f32[25]
  param %w: f32[25]
  input %x: f32[75]
  %a: f32[75], %b: f32[25] = aten::convolution_backward(%g, %x, %w) {{output_mask = [true, true, false]}}
  %m: f32[{}] = my::f(%a)
  return %b, %m
}}
)";
  const Device device = find_device("cpu").value();
  for (const int elements : {100, 174, 175, 1000}) {
    const Graph graph = parse_valid(fmt::format(kPeak, elements)).value();
    const Planned planned = make_plan(graph, device, {.budget = Bytes{10'000}}).value();
    ASSERT_TRUE(planned.plan);
    const std::vector<NodeId> calls = find_splittable(graph);
    EXPECT_EQ(find_at_peak(*planned.plan, calls).size(), 500 + 4 * elements < 1200 ? 1 : 0)
        << elements;
  }
}

}  // namespace
}  // namespace ebb
