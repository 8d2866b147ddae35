// Claims about rewriting, tried on random graphs and random decisions: whatever is not refused
// leaves every operation of the original finding the same bytes, in every order that runs.
#include <array>

#include <gtest/gtest.h>

#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"
#include "ebb/rewrite/plan_file.h"
#include "ebb/rewrite/rewriter.h"
#include "tests/meaning/interpreter.h"
#include "tests/meaning/random_decisions.h"
#include "tests/meaning/random_graph.h"

namespace ebb {
namespace {

struct Rewritten {
  Graph original;
  Graph graph;
  PlanFile plan;
  std::array<int, std::variant_size_v<Decision>> applied = {};  // by kind
};

Rewritten rewrite(std::uint64_t seed, bool verify_each) {
  Rewritten out;
  out.original = with_shuffled_lines(random_graph(seed, {.nodes = 32}), seed);
  out.graph = out.original;
  Rewriter rewriter(out.graph, {.verify_each = verify_each});
  RandomDecisions decisions(seed);
  for (int i = 0; i < 40; ++i) {
    const Decision decision = decisions.any(out.graph);
    const bool applies = rewriter.check(decision).has_value();
    EXPECT_EQ(rewriter.apply(decision).has_value(), applies);
    if (applies) ++out.applied[decision.index()];
  }
  rewriter.settle();
  out.plan = plan_of(out.original, rewriter.graph(), rewriter.journal());
  return out;
}

TEST(RandomDecisions, LeaveEveryOperationFindingTheSameBytesInEveryOrderThatRuns) {
  const std::uint64_t graphs = how_many(4'000);
  std::array<int, std::variant_size_v<Decision>> applied = {};
  for (std::uint64_t seed = 0; seed < graphs; ++seed) {
    const Rewritten out = rewrite(seed, true);
    for (std::size_t i = 0; i < applied.size(); ++i) applied[i] += out.applied[i];
    const std::vector<std::uint64_t> expected = run(out.original);
    for (std::uint64_t order = 0; order < 3; ++order) {
      const Graph shuffled =
          order == 0 ? out.graph : with_shuffled_lines(out.graph, 3 * seed + order);
      std::vector<std::uint64_t> found = run(shuffled);
      found.resize(expected.size());  // the original's nodes have the first ids
      ASSERT_EQ(found, expected) << "seed " << seed << "\n"
                                 << print(out.original) << to_text(out.plan) << print(shuffled);
    }
  }
  EXPECT_GT(applied[0], static_cast<int>(graphs / 4)) << "swaps";
  EXPECT_GT(applied[1], static_cast<int>(graphs / 4)) << "recomputes";
  EXPECT_GT(applied[2], static_cast<int>(graphs / 4)) << "delays";
  EXPECT_GT(applied[4], static_cast<int>(graphs / 4)) << "splits";
}

TEST(RandomDecisions, AreTheSameWhenTheyAreReadBackFromTheirPlan) {
  for (std::uint64_t seed = 0; seed < how_many(1'000); ++seed) {
    const Rewritten out = rewrite(seed, false);
    const auto plan = parse_plan(to_text(out.plan));
    ASSERT_TRUE(plan) << plan.error().render("plan") << "\n" << to_text(out.plan);
    const auto again = apply_plan(out.original, *plan);
    ASSERT_TRUE(again) << "seed " << seed << ": " << again.error().render("plan") << "\n"
                       << print(out.original) << to_text(out.plan);
    ASSERT_EQ(print(again->graph), print(out.graph)) << "seed " << seed;
  }
}

TEST(RandomDecisions, AreCheckedAgainstAllThatWaits) {
  for (std::uint64_t seed = 0; seed < how_many(500); ++seed) {
    Graph graph = random_graph(seed, {.nodes = 24});
    Rewriter rewriter(graph, {.verify_each = false});
    RandomDecisions decisions(seed);
    int applied = 0;
    for (int i = 0; i < 20; ++i) applied += rewriter.apply(decisions.any(graph)) ? 1 : 0;
    ASSERT_EQ(rewriter.journal().size(), static_cast<std::size_t>(applied));
    rewriter.settle();
    const Dependence dependence(graph);
    std::vector<std::vector<bool>> waits(graph.node_count(), std::vector<bool>(graph.node_count()));
    for (const NodeId node : graph.order()) {
      for (const auto& edge : dependence.before(node)) {
        waits[node.index()][edge.node.index()] = true;
        for (std::size_t i = 0; i < graph.node_count(); ++i) {
          if (waits[edge.node.index()][i]) waits[node.index()][i] = true;
        }
      }
    }
    for (const NodeId later : graph.nodes()) {
      for (const NodeId earlier : graph.nodes()) {
        if (!waits[later.index()][earlier.index()]) continue;
        ASSERT_TRUE(rewriter.waits(later, earlier)) << "seed " << seed << ": '" << graph.name(later)
                                                    << "' and '" << graph.name(earlier) << "'\n"
                                                    << print(graph);
        ASSERT_FALSE(rewriter.waits(earlier, later)) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace ebb
