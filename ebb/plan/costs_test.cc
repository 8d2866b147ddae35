#include "ebb/plan/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

using testing::HasSubstr;

// Round numbers: 1 byte and 1000 operations a nanosecond, a launch of 10 ns.
Device device() {
  return Device{.name = "round",
                .note = {},
                .memory = {1 << 30},
                .memory_bandwidth = {1e9},
                .flops = {1e12, 1e12, 1e12, 1e12, 1e12, 1e12, 1e12},
                .efficiency = {1, 1, 1, 1},
                .launch = Duration{10},
                .link = {{1e9}, {1e9}, {1e9}, {1e9}, Duration{0}, Duration{0}}};
}

Graph graph_of(const std::string& lines) {
  auto graph = parse_valid(
      "graph g {\n  input %x: f32[8]\n  param %w: f32[8]\n  input %h: f32[8] @host\n"
      "  input %q: f32[?,4]\n  scalar $lr: f64\n" +
      lines + "  return\n}\n");
  EXPECT_TRUE(graph) << graph.error().render("graph");
  return std::move(*graph);
}

struct Seen {
  std::int64_t nanoseconds;
  CostSource source;
  friend bool operator==(const Seen&, const Seen&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Seen& seen) {
    return out << seen.nanoseconds << " ns from " << static_cast<int>(seen.source);
  }
};

Seen cost(const Graph& graph, const StepCosts& costs, std::string_view name) {
  const NodeId node = graph.find_node(name);
  EXPECT_TRUE(node.valid()) << name;
  return {costs.compute[node.index()].count(), costs.source[node.index()]};
}

// Of the operation %r or `r`.
Seen cost_of(const std::string& lines) {
  const Graph graph = graph_of(lines);
  const auto costs = estimate_costs(graph, device());
  EXPECT_TRUE(costs) << costs.error().message;
  return cost(graph, *costs, "r");
}

TEST(Costs, TheTextGoesBeforeTheModel) {
  EXPECT_EQ(cost_of("  %r: f32[8] = aten::relu(%x) takes 3us\n"), (Seen{3000, CostSource::kText}));
  EXPECT_EQ(cost_of("  %r: f32[8] = aten::relu(%x) takes 0ns\n"), (Seen{0, CostSource::kText}));
  EXPECT_EQ(cost_of("  %r: f32[?,4] = aten::relu(%q) takes 3us\n"),
            (Seen{3000, CostSource::kText}));
  // 32 bytes in, 32 bytes out, at 1 byte/ns, and the launch.
  EXPECT_EQ(cost_of("  %r: f32[8] = aten::relu(%x)\n"), (Seen{74, CostSource::kModel}));
}

TEST(Costs, TheProfileGoesBeforeTheText) {
  const Graph graph = graph_of(
      "  %a: f32[8] = aten::relu(%x) takes 3us workspace 5B\n"
      "  %b: f32[8] = aten::sin(%a) takes 4us workspace 6B\n"
      "  %c: f32[8] = aten::cos(%b)\n");
  const Profile profile =
      Profile::make("round", {{"aten::relu(f32[8]) -> f32[8]", Duration{77}, Bytes{99}}}).value();
  const StepCosts costs = estimate_costs(graph, device(), &profile).value();
  EXPECT_EQ(cost(graph, costs, "a"), (Seen{77, CostSource::kProfile}));
  EXPECT_EQ(cost(graph, costs, "b"), (Seen{4000, CostSource::kText}));
  EXPECT_EQ(cost(graph, costs, "c"), (Seen{74, CostSource::kModel}));
  EXPECT_EQ(costs.workspace[graph.find_node("a").index()], Bytes{99});
  EXPECT_EQ(costs.workspace[graph.find_node("b").index()], Bytes{6});
  EXPECT_EQ(costs.workspace[graph.find_node("c").index()], Bytes{0});
  EXPECT_EQ(costs.link, device().link);
}

TEST(Costs, AProfileOfAnotherGraphIsRefused) {
  const Graph graph = graph_of("  %a: f32[8] = aten::relu(%x) takes 3us\n");
  const Profile profile =
      Profile::make("round", {{"aten::relu(f32[9]) -> f32[9]", Duration{77}, Bytes{0}}}).value();
  const auto costs = estimate_costs(graph, device(), &profile);
  ASSERT_FALSE(costs);
  EXPECT_EQ(costs.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(costs.error().message, HasSubstr("the profile has none of the graph's operations"));
}

TEST(Costs, DeclarationsViewsAndTheHostTakeNothing) {
  for (const char* line : {
           "  input %r: f32[8]\n",
           "  param %r: f32[8]\n",
           "  const %r: f32[8]\n",
           "  scalar $r: f64\n",
           "  %r: f32[4] ~ %x = my::first_half(%x)\n",
           "  $r: f64 = scalar::sub(1.0, $lr)\n",
           "  $r: f64 = aten::_local_scalar_dense(%x)\n",
           "  %r: f32[8] @host = my::on_host(%h)\n",
           "  %r: f32[8] @host = ebb::swap_out(%x)\n",
           "  %r: f32[8] = aten::empty_like(%x)\n",
           "  %r: f32[?,4] @host = my::shape(%q)\n",
           "  r: tf::NoOp()\n",
       }) {
    EXPECT_EQ(cost_of(line), (Seen{0, CostSource::kNothing})) << line;
  }
}

TEST(Costs, CopiesOverTheLinkHaveEnginesOfTheirOwn) {
  const Graph graph = graph_of(
      "  %a: f32[8] = aten::relu(%x)\n"
      "  %a.code: bf16[8] = ebb::encode(%a) {codec = \"bf16\"}\n"
      "  %a.code.host: bf16[8] @host = ebb::swap_out(%a.code)\n"
      "  %b: f32[8] = aten::sin(%a)\n"
      "  %b.host: f32[8] @host = ebb::swap_out(%b)\n"
      "  %b.host.code: bf16[8] @host = ebb::encode(%b.host) {codec = \"bf16\"}\n"
      "  %a.code.back: bf16[8] = ebb::swap_in(%a.code.host) after b\n"
      "  %a.back: f32[8] = ebb::decode(%a.code.back) {codec = \"bf16\"}\n"
      "  %w.kept: f32[8] = ebb::snapshot(%w)\n");
  const StepCosts costs = estimate_costs(graph, device()).value();
  for (const char* name : {"a.code.host", "a.code.back", "b.host", "b.host.code"}) {
    EXPECT_EQ(cost(graph, costs, name), (Seen{0, CostSource::kNothing})) << name;
  }
  // 32 bytes of f32 and 16 of bf16; a snapshot reads and writes 32.
  EXPECT_EQ(cost(graph, costs, "a.code"), (Seen{10 + 48, CostSource::kModel}));
  EXPECT_EQ(cost(graph, costs, "a.back"), (Seen{10 + 48, CostSource::kModel}));
  EXPECT_EQ(cost(graph, costs, "w.kept"), (Seen{10 + 64, CostSource::kModel}));
}

TEST(Costs, AClonesCostIsItsOriginals) {
  const Graph graph = graph_of(
      "  %a: f32[8] = aten::relu(%x) takes 3us workspace 5B\n"
      "  %b: f32[8] = aten::sin(%a)\n"
      "  %a.again: f32[8] = aten::relu(%x) clone of a after b takes 9us\n"
      "  %b.again: f32[8] = aten::sin(%a.again) clone of b after b\n");
  const StepCosts costs = estimate_costs(graph, device()).value();
  EXPECT_EQ(cost(graph, costs, "a.again"), (Seen{3000, CostSource::kText}));
  EXPECT_EQ(costs.workspace[graph.find_node("a.again").index()], Bytes{5});
  EXPECT_EQ(cost(graph, costs, "b.again"), cost(graph, costs, "b"));
}

TEST(Costs, AnOperationThatNobodyKnowsReadsAndWritesOnceAndIsCounted) {
  const Graph graph = graph_of(
      "  %a: f32[8] = my::op(%x, %w)\n"
      "  %b: f32[8] = my::other(%x)\n"
      "  %c: f32[8] = my::op(%a, %w)\n");
  const StepCosts costs = estimate_costs(graph, device()).value();
  EXPECT_EQ(cost(graph, costs, "a"), (Seen{10 + 3 * 32, CostSource::kUnknownOperation}));
  EXPECT_EQ(costs.unknown, 3);
  EXPECT_EQ(unknown_operators(graph, costs), "my::op (2), my::other (1)");
}

TEST(Costs, UnknownSizesAreRefusedWithTheTensorAndTheRemedy) {
  const auto costs = estimate_costs(graph_of("  %r: f32[?,4] = aten::relu(%q)\n"), device());
  ASSERT_FALSE(costs);
  EXPECT_EQ(costs.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(
      costs.error().message,
      "how large %q is, is not known (f32[?,4]), and so what 'r' costs: fix the batch size and "
      "all other dimensions, or give the operation a time in the text or in a profile");
}

TEST(Costs, MoreThanALifetimeIsRefused) {
  std::string lines;
  for (int i = 0; i < 3; ++i) {
    lines += "  %a" + std::to_string(i) + ": f32[8] = aten::relu(%x) takes 1000000000s\n";
  }
  const auto costs = estimate_costs(graph_of(lines), device());
  ASSERT_FALSE(costs);
  EXPECT_EQ(costs.error().message, "the operations up to 'a2' would take more than 73 years");
}

}  // namespace
}  // namespace ebb
