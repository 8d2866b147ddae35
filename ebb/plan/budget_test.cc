#include "ebb/plan/budget.h"

#include <string>

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

std::string error_of(std::string_view text, Bytes unconstrained = Bytes{1000}) {
  const auto budget = parse_budget(text, unconstrained);
  EXPECT_FALSE(budget) << text;
  if (budget) return "";
  EXPECT_EQ(budget.error().kind, ErrorKind::kUsage);
  return budget.error().message;
}

TEST(Budget, IsBytesWithAUnit) {
  EXPECT_EQ(parse_budget("16GiB", Bytes{1000}), Bytes{16LL << 30});
  EXPECT_EQ(parse_budget("1.5KB", Bytes{1000}), Bytes{1500});
  EXPECT_EQ(parse_budget("1048576TiB", Bytes{1000}), Bytes{1LL << 60});
}

TEST(Budget, OrPerCentOfWhatTheStepUses) {
  EXPECT_EQ(parse_budget("60%", Bytes{1000}), Bytes{600});
  EXPECT_EQ(parse_budget("29%", Bytes{100}), Bytes{29});
  EXPECT_EQ(parse_budget("33.3%", Bytes{100}), Bytes{33});
  EXPECT_EQ(parse_budget("100%", Bytes{(1LL << 46) - 1}), Bytes{(1LL << 46) - 1});
  EXPECT_EQ(parse_budget(".5%", Bytes{1000}), Bytes{5});
}

TEST(Budget, MayBeMoreThanTheStepUses) {
  EXPECT_EQ(parse_budget("250%", Bytes{1000}), Bytes{2500});
}

TEST(Budget, OfNothingIsRefused) {
  EXPECT_EQ(error_of("0B"), "the budget '0B' is nothing; give at least what one operation needs");
  EXPECT_EQ(error_of("0%"), "the budget '0%' is nothing; give at least what one operation needs");
  EXPECT_EQ(error_of("0.01%"),
            "the budget '0.01%' is nothing; give at least what one operation needs");
  EXPECT_EQ(error_of("60%", Bytes{}),
            "the budget '60%' is a share of nothing: the step uses no memory of the device");
}

TEST(Budget, BelowNothingIsRefused) {
  EXPECT_EQ(error_of("-1GiB"), "the budget '-1GiB' is negative; give more than nothing");
  EXPECT_EQ(error_of("-60%"), "the budget '-60%' is negative; give more than nothing");
}

TEST(Budget, BeyondAnyMachineIsRefused) {
  for (const char* text : {"1048577TiB", "99999999999999999999GiB", "99999999999999999999999999B",
                           "99999999999999999999%"}) {
    EXPECT_EQ(error_of(text),
              "the budget '" + std::string(text) + "' is more than any machine has");
  }
}

TEST(Budget, WithAnUnknownUnitIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(
      error_of("100PiB"),
      "the budget '100PiB' has an unknown unit, 'PiB'; there are B, KiB, MiB, GiB, TiB, KB, MB, "
      "GB, TB and %");
  EXPECT_EQ(
      error_of("16gib"),
      "the budget '16gib' has an unknown unit, 'gib'; there are B, KiB, MiB, GiB, TiB, KB, MB, "
      "GB, TB and %");
}

TEST(Budget, PerCentForBytesGiveAtLeastThese) {
  EXPECT_EQ(per_cent_for(Bytes{600}, Bytes{900}), "66.67");
  EXPECT_EQ(per_cent_for(Bytes{600}, Bytes{1000}), "60.00");
  EXPECT_EQ(per_cent_for(Bytes{6413824}, Bytes{10689536}), "60.01");  // 60.0009...
  EXPECT_EQ(per_cent_for(Bytes{600}, Bytes{}), "0.00");
  for (std::int64_t whole : {7LL, 10000LL, 10689536LL, (1LL << 43) + 12345}) {
    for (std::int64_t part = 1; part <= 1000; ++part) {
      const Bytes bytes{whole / 1000 * part + whole % 1000 * part / 1000 + 1};
      EXPECT_GE(*parse_budget(per_cent_for(bytes, Bytes{whole}) + '%', Bytes{whole}), bytes);
    }
  }
}

TEST(Budget, NonsenseIsRefusedWithExamples) {
  for (const char* text : {"", "%", "much", "16 GiB", "1e3%", "inf%", "nan%", "+60%", "60 %",
                           "6.0.0%", "60%%", "0x10B", "GiB"}) {
    EXPECT_EQ(error_of(text), "the budget '" + std::string(text) +
                                  "' cannot be read; write one like 16GiB, 1.5GB or 60%");
  }
  EXPECT_EQ(error_of("16"), "the budget '16' has no unit; write one like 16GiB, 1.5GB or 60%");
  EXPECT_EQ(error_of("1\n"),
            "the budget '1\\x0a' cannot be read; write one like 16GiB, 1.5GB or 60%");
}

TEST(Budget, ThePeakHasTheWorkspacesOfTheCosts) {
  const Graph graph = parse_valid(R"(graph g {
  input %x: f32[256]
  %a: f32[512] = my::f(%x) workspace 8KiB
  %b: f32[256] = my::f(%a)
  return %b
}
)")
                          .value();
  StepCosts costs;
  costs.workspace.resize(graph.node_count());
  const NodeId a = graph.find_node("a");
  const NodeId b = graph.find_node("b");
  costs.workspace[a.index()] = Bytes{8192};
  EXPECT_EQ(find_peak(graph, costs).bytes, find_peak(graph).bytes);
  EXPECT_EQ(find_peak(graph, costs).bytes, Bytes{1024 + 2048 + 8192});
  EXPECT_EQ(find_peak(graph, costs).node, a);
  // Measured: little for %a, much for %b, which does not need %x any more.
  costs.workspace[a.index()] = Bytes{100};
  costs.workspace[b.index()] = Bytes{10000};
  EXPECT_EQ(find_peak(graph, costs).bytes, Bytes{2048 + 1024 + 10000});
  EXPECT_EQ(find_peak(graph, costs).node, b);
}

TEST(Budget, AnEmptyGraphUsesNothing) {
  const Graph graph = parse_valid("graph g {\n  return\n}\n").value();
  EXPECT_EQ(find_peak(graph, {}).bytes, Bytes{});
}

}  // namespace
}  // namespace ebb
