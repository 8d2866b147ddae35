// What the paper's driver chooses is what a plain reading of the paper's algorithms chooses, and
// the swap rule accepts it: on training steps, and on random graphs.
#include "ebb/rewrite/lms.h"

#include <algorithm>
#include <ranges>
#include <set>

#include <gtest/gtest.h>

#include "ebb/graph/dependence.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"
#include "ebb/graph/views.h"
#include "ebb/order/gamma.h"
#include "ebb/order/reachability.h"
#include "ebb/rewrite/lms_graph.h"
#include "ebb/rewrite/lms_rewrite.h"
#include "ebb/rewrite/rewriter.h"
#include "examples/models.h"
#include "tests/meaning/random_graph.h"

namespace ebb {
namespace {

// Algorithms 1 and 2, set by set.
class PlainReading {
 public:
  PlainReading(const Graph& graph, std::int64_t lb, std::int64_t ub)
      : graph_(graph),
        lb_(lb),
        ub_(ub),
        gamma_(graph),
        phases_(find_phases(graph, {})),
        waits_for_(graph.node_count(), std::vector<bool>(graph.node_count())) {
    const Dependence dependence(graph);
    for (const NodeId node : graph.order()) {
      auto& mine = waits_for_[node.index()];
      for (const auto& edge : dependence.before(node)) {
        const auto& theirs = waits_for_[edge.node.index()];
        mine[edge.node.index()] = true;
        for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = mine[i] || theirs[i];
      }
    }
  }

  [[nodiscard]] bool waits(NodeId later, NodeId earlier) const {
    return waits_for_[later.index()][earlier.index()];
  }
  [[nodiscard]] bool is_between(NodeId f1, NodeId g, NodeId f2) const {
    return gamma_[f1] + 1 < gamma_[g] && gamma_[g] < gamma_[f2];
  }

  [[nodiscard]] NodeId direct_order(NodeId f1, NodeId f2) const {
    for (std::int64_t i = lb_; i <= ub_ && i < gamma_[f2]; ++i) {
      for (const NodeId g : graph_.order()) {
        if (gamma_[g] + i == gamma_[f2] && may_trigger(f1, g, f2)) return g;
      }
    }
    return {};
  }

  [[nodiscard]] NodeId chain_rule(NodeId f1, NodeId f2) const {
    std::set<NodeId> front = {f1};
    std::set<NodeId> closed;
    for (std::int64_t level = 0; level < ub_ && !front.empty(); ++level) {
      closed.insert(front.begin(), front.end());
      std::set<NodeId> next;
      NodeId best;
      for (const NodeId g : graph_.order()) {
        if (!graph_.is_op(g) || makes_only_views(graph_, g) || !reads_any(g, front)) continue;
        const LmsPhase phase = phases_[g.index()];
        if (phase == LmsPhase::kForward && !closed.contains(g)) next.insert(g);
        if (phase != LmsPhase::kBackward || level < lb_ || !may_trigger(f1, g, f2)) continue;
        if (!best.valid() || gamma_[g] > gamma_[best]) best = g;
      }
      if (best.valid()) return best;
      front = std::move(next);
    }
    return {};
  }

 private:
  [[nodiscard]] bool may_trigger(NodeId f1, NodeId g, NodeId f2) const {
    return graph_.is_op(g) && !graph_.runs_on_host(g) && !makes_only_views(graph_, g) &&
           !is_copy(graph_.op(g)) && graph_.scope(g) == graph_.scope(f2) && is_between(f1, g, f2) &&
           waits(f2, g);
  }
  [[nodiscard]] bool reads_any(NodeId reader, const std::set<NodeId>& makers) const {
    for (const Operand& operand : graph_.operands(reader)) {
      if (!operand.tensor.valid() || graph_.is_variable(operand.tensor)) continue;
      if (makers.contains(graph_.producer(graph_.root(graph_.storage(operand.tensor))))) {
        return true;
      }
    }
    return false;
  }

  const Graph& graph_;
  std::int64_t lb_;
  std::int64_t ub_;
  Gamma gamma_;
  std::vector<LmsPhase> phases_;
  std::vector<std::vector<bool>> waits_for_;
};

// Gives back how many swaps there were to compare.
std::size_t expect_plain_reading(const Graph& graph, const LmsOptions& options) {
  const PlainReading plain(graph, options.lb, options.ub);
  const auto expected = [&](NodeId producer, NodeId reader) {
    return options.ctrld_strategy == "chain_rule" ? plain.chain_rule(producer, reader)
                                                  : plain.direct_order(producer, reader);
  };
  const LmsPlan plan = choose_swaps(graph, options).value();
  for (const SwapDecision& swap : plan.swaps) {
    const NodeId producer = graph.producer(swap.tensor);
    for (const ReaderGroup& group : swap.groups) {
      EXPECT_EQ(graph.name(group.trigger), graph.name(expected(producer, group.readers.front())))
          << to_text(graph, swap);
      for (const NodeId reader : group.readers) {
        EXPECT_TRUE(plain.waits(reader, group.trigger)) << graph.name(reader);
        EXPECT_TRUE(plain.is_between(producer, group.trigger, reader)) << graph.name(reader);
      }
    }
  }
  for (const LmsRefused& refused : plan.refused) {
    if (refused.reason != LmsRefusal::kNoTrigger && refused.reason != LmsRefusal::kTooClose) {
      continue;
    }
    EXPECT_FALSE(expected(graph.producer(refused.tensor), refused.consumer).valid())
        << graph.name(refused.tensor) << " for " << graph.name(refused.consumer);
  }
  return plan.swaps.size();
}

void expect_plain_reading_everywhere(const Result<Graph>& example) {
  const Graph& graph = example.value();
  std::size_t compared = 0;
  for (const std::string strategy : {"chain_rule", "direct_order"}) {
    for (const bool fuse : {false, true}) {
      for (const auto& [lb, ub] : {std::pair{1, 10000}, {2, 5}, {7, 9}, {20, 10000}}) {
        compared += expect_plain_reading(
            graph, {.lb = lb, .ub = ub, .ctrld_strategy = strategy, .fuse_swapins = fuse});
      }
    }
  }
  EXPECT_GT(compared, 300U);
}

// Applies what was chosen.
void expect_accepted(const Graph& original, const LmsOptions& options) {
  const LmsPlan plan = choose_swaps(original, options).value();
  Graph graph = original;
  Rewriter rewriter(graph, {.verify_each = false});
  for (const SwapDecision& swap : plan.swaps) {
    const Status done = rewriter.apply(swap);
    EXPECT_TRUE(done.has_value()) << done.error().message << "\n" << print(original);
  }
  rewriter.settle();
  const Status right = verify(graph);
  EXPECT_TRUE(right.has_value()) << right.error().message << "\n" << print(original);
}

TEST(LmsMeaning, TheRuleAcceptsWhatIsChosenForTrainingSteps) {
  for (const auto& example :
       {examples::mlp(), examples::resnet(), examples::unet(), examples::transformer()}) {
    const Graph graph = example.value();
    expect_accepted(graph, {});
    expect_accepted(graph, {.ctrld_strategy = "direct_order", .fuse_swapins = true});
    expect_accepted(graph, {.swap_branches = true, .whole_graph = true, .codec = "bf16"});
  }
}

TEST(LmsMeaning, RandomGraphsToo) {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = random_graph(seed, {.nodes = 40});
    for (const bool fuse : {false, true}) {
      const LmsOptions options{.lb = 1 + static_cast<std::int64_t>(seed % 3),
                               .ctrld_strategy = "direct_order",
                               .fuse_swapins = fuse,
                               .fuse_distance = static_cast<std::int64_t>(seed % 5),
                               .whole_graph = true,
                               .alpha = 1};
      compared += expect_plain_reading(graph, options);
      expect_accepted(graph, options);
    }
  }
  EXPECT_GT(compared, 250U);
}

TEST(LmsMeaning, TheSameGraphGivesTheSamePlan) {
  const Graph graph = examples::unet().value();
  for (const LmsOptions& options :
       {LmsOptions{.whole_graph = true}, LmsOptions{.sync = 2, .recompute_types = {"relu"}}}) {
    const auto plan_text = [&](const Graph& each) {
      const LmsRewritten done = rewrite_by_lms(each, options).value();
      std::string out;
      for (const JournalEntry& entry : done.journal) {
        out += to_text(done.graph, entry.decision) + "\n";
      }
      return out;
    };
    const std::string first = plan_text(graph);
    EXPECT_FALSE(first.empty());
    EXPECT_EQ(plan_text(graph), first);
    EXPECT_EQ(plan_text(parse_valid(print(graph)).value()), first);
  }
}

// Who makes what is swapped, in line order, each with the swap-outs.
std::vector<std::pair<NodeId, std::vector<NodeId>>> makers_and_swap_outs(const Graph& graph) {
  std::vector<std::pair<NodeId, std::vector<NodeId>>> found;
  for (const NodeId node : graph.order()) {
    if (graph.op(node) != kSwapOut) continue;
    const NodeId maker = graph.producer(graph.operands(node)[0].tensor);
    if (found.empty() || found.back().first != maker) found.push_back({maker, {}});
    found.back().second.push_back(node);
  }
  return found;
}

TEST(LmsMeaning, WithSyncAMakerWaitsForTheSwapOutsOfTheMakerSoManyBeforeThatItNeeds) {
  for (const auto& example : {examples::resnet(), examples::unet()}) {
    const Graph graph = example.value();
    const Dependence dependence(graph);
    Reachability reachability(graph, dependence);
    for (const std::size_t distance : {1U, 2U, 5U}) {
      const LmsRewritten done =
          rewrite_by_lms(graph, {.sync = static_cast<std::int64_t>(distance)}).value();
      const auto leaving = makers_and_swap_outs(done.graph);
      ASSERT_GT(leaving.size(), distance);
      std::size_t edges = 0;
      for (std::size_t i = distance; i < leaving.size(); ++i) {
        const NodeId maker = leaving[i].first;
        if (!done.graph.is_op(maker)) continue;
        std::size_t k = i - distance;  // and if it does not need that one, up to seven before it
        while (k > 0 && i - distance - k < 7 && !reachability.reaches(leaving[k].first, maker)) --k;
        if (!reachability.reaches(leaving[k].first, maker)) continue;
        const auto controls = done.graph.controls(maker);
        for (const NodeId swap_out : leaving[k].second) {
          EXPECT_TRUE(std::ranges::find(controls, swap_out) != controls.end())
              << done.graph.name(maker) << " after " << done.graph.name(swap_out);
          ++edges;
        }
      }
      EXPECT_EQ(done.plan.delays.size(), edges);
      EXPECT_EQ(done.plan.delays_refused, 0U);
    }
  }
}

// By the backward phase, but for what the plan says it left.
void expect_recomputed_tensors_are_not_read(const LmsRewritten& done) {
  const std::vector<LmsPhase> phases = find_phases(done.graph, {});
  const LmsEdges edges(done.graph);
  std::set<std::pair<TensorId, NodeId>> left;
  for (const LmsRefused& refused : done.plan.refused) {
    left.emplace(refused.tensor, refused.consumer);
  }
  for (const RecomputeDecision& recompute : done.plan.recomputes) {
    for (const NodeId reader : edges.readers(done.graph.storage(recompute.tensor))) {
      EXPECT_TRUE(phases[reader.index()] != LmsPhase::kBackward ||
                  left.contains({recompute.tensor, reader}))
          << done.graph.name(recompute.tensor) << " for " << done.graph.name(reader);
    }
  }
}

TEST(LmsMeaning, RecomputedTensorsAreNotReadByTheBackwardPhaseAndClonesBelongToIt) {
  for (const auto& [example, types] :
       {std::pair<Result<Graph>, std::vector<std::string>>{examples::resnet(), {"relu"}},
        {examples::resnet(), {"relu", "add"}},
        {examples::unet(), {"relu", "add"}},
        {examples::transformer(), {"add", "mm", "bmm"}}}) {
    for (const bool fuse : {false, true}) {
      const LmsRewritten done =
          rewrite_by_lms(example.value(), {.fuse_swapins = fuse, .recompute_types = types}).value();
      EXPECT_GT(done.plan.recomputes.size(), 3U);
      expect_recomputed_tensors_are_not_read(done);
      const std::vector<LmsPhase> phases = find_phases(done.graph, {});
      for (const NodeId node : done.graph.order()) {
        if (!done.graph.clone_of(node).valid()) continue;
        EXPECT_EQ(phases[node.index()], LmsPhase::kBackward) << done.graph.name(node);
      }
    }
  }
}

// What runs when nothing but the tensor is asked for.
std::vector<bool> needed_for(const Graph& graph, TensorId tensor) {
  std::vector<bool> needed(graph.node_count());
  needed[graph.producer(tensor).index()] = true;
  for (const NodeId line : std::views::reverse(graph.order())) {
    if (!needed[line.index()]) continue;
    for (const Operand& operand : graph.operands(line)) {
      if (operand.tensor.valid()) needed[graph.producer(operand.tensor).index()] = true;
    }
    for (const NodeId control : graph.controls(line)) needed[control.index()] = true;
  }
  return needed;
}

// How many added nodes run when all is asked for that the original computes without its backward
// phase.
std::size_t added_nodes_in_forward_phase(const Graph& original, const LmsOptions& options) {
  const Graph rewritten = rewrite_by_lms(original, options).value().graph;
  const std::vector<LmsPhase> phases = find_phases(original, options.optimizer_scopes);
  const auto runs_backward = [&](const std::vector<bool>& needed) {
    return std::any_of(original.nodes().begin(), original.nodes().end(), [&](NodeId node) {
      return needed[node.index()] && phases[node.index()] == LmsPhase::kBackward;
    });
  };
  std::size_t forward = 0;
  std::vector<bool> added(rewritten.node_count());
  for (const TensorId tensor : original.tensors()) {
    if (runs_backward(needed_for(original, tensor))) continue;
    ++forward;
    const auto needed = needed_for(rewritten, tensor);
    for (std::size_t i = original.node_count(); i < needed.size(); ++i) {
      added[i] = added[i] || needed[i];
    }
  }
  EXPECT_GT(forward, 10U);
  return static_cast<std::size_t>(std::count(added.begin(), added.end(), true));
}

TEST(LmsMeaning, ForwardOnlyFetchesRunNoAddedNodeUnlessBranchesAreSwappedOrSyncIsOn) {
  const Graph unet = examples::unet({.depth = 2, .size = 32}).value();
  for (const auto& example :
       {examples::mlp(), examples::resnet({.blocks = {1, 2, 1}, .image = 32}),
        examples::transformer({.layers = 2, .width = 64, .heads = 4}), Result<Graph>(unet)}) {
    const Graph graph = example.value();
    for (const std::string strategy : {"chain_rule", "direct_order"}) {
      for (const bool fuse : {false, true}) {
        const LmsOptions options{.ctrld_strategy = strategy, .fuse_swapins = fuse};
        EXPECT_EQ(added_nodes_in_forward_phase(graph, options), 0U);
      }
      // Sync is what makes them run.
      EXPECT_GT(added_nodes_in_forward_phase(graph, {.ctrld_strategy = strategy, .sync = 1}), 0U);
    }
  }
  EXPECT_EQ(added_nodes_in_forward_phase(unet, {.recompute_types = {"relu"}}), 0U);
  EXPECT_GT(added_nodes_in_forward_phase(unet, {.swap_branches = true, .branch_threshold = 5}), 0U);
}

TEST(LmsMeaning, TriggersOfAResidualNetworkAreThoseOfAPlainReading) {
  expect_plain_reading_everywhere(examples::resnet({.blocks = {1, 2, 1}, .image = 32}));
}
TEST(LmsMeaning, TriggersOfAUnetAreThoseOfAPlainReading) {
  expect_plain_reading_everywhere(examples::unet({.depth = 2, .size = 32}));
}
TEST(LmsMeaning, TriggersOfATransformerAreThoseOfAPlainReading) {
  expect_plain_reading_everywhere(examples::transformer({.layers = 2, .width = 64, .heads = 4}));
}

}  // namespace
}  // namespace ebb
