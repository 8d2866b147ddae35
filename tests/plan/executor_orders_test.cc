// What control edges promise for TensorFlow's executor: in whatever order it starts what is ready,
// and however long copies take, it holds no more than the budget.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "ebb/graph/dependence.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/views.h"
#include "ebb/order/in_place.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/plan.h"
#include "tests/meaning/random_graph.h"
#include "tests/plan/dice.h"
#include "tests/plan/random_case.h"
#include "tests/plan/random_step.h"

namespace ebb {
namespace {

// Runs a rewritten step as the executor may: starts what is ready, in random order. What is started
// is over for others at once; only copies end later, any time.
class RandomExecutor {
 public:
  RandomExecutor(const Plan& plan, std::uint64_t seed)
      : graph_(plan.graph),
        workspace_(plan.costs.workspace),
        dice_(seed),
        copies_are_late_(dice_.one_in(2)),
        dependence_(graph_),
        missing_(graph_.node_count()),
        users_(graph_.storage_count()) {
    std::vector<Bytes> sizes;
    for (const StorageId storage : graph_.storages()) sizes.push_back(size_of(storage));
    takes_over_ = find_takeovers(graph_, find_lives(graph_), sizes,
                                 std::vector<bool>(graph_.storage_count(), true));
    for (const NodeId node : graph_.order()) {
      missing_[node.index()] = dependence_.before(node).size();
      for (const StorageId storage : touched(node)) ++users_[storage.index()];
    }
    for (const TensorId output : graph_.outputs()) ++users_[graph_.storage(output).index()];
    for (const StorageId storage : graph_.storages()) {
      const NodeKind origin = graph_.origin(storage);
      if (origin == NodeKind::kParam || origin == NodeKind::kConst) ++users_[storage.index()];
      if (origin != NodeKind::kOp) held_ += size_of(storage);
    }
  }

  Bytes peak() {
    for (const NodeId node : graph_.order()) {
      if (missing_[node.index()] == 0) ready_.push_back(node);
    }
    while (!ready_.empty() || !copying_.empty()) {
      const bool may_start = !ready_.empty();
      const bool ends_copy =
          !copying_.empty() && (!may_start || (!copies_are_late_ && dice_.one_in(3)));
      if (ends_copy) {
        end(take(copying_));
      } else {
        start(take(ready_));
      }
    }
    return peak_;
  }

 private:
  [[nodiscard]] Bytes size_of(StorageId storage) const {
    if (graph_.residence(storage) == Residence::kHost) return {};
    return graph_.size(storage).value_or(Bytes{});
  }

  // Storages, each once.
  [[nodiscard]] std::vector<StorageId> touched(NodeId node) const {
    std::vector<StorageId> out;
    if (makes_only_views(graph_, node)) return out;
    for (const Operand& operand : graph_.operands(node)) {
      if (operand.tensor.valid()) out.push_back(graph_.storage(operand.tensor));
    }
    for (const TensorId result : graph_.results(node)) out.push_back(graph_.storage(result));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  NodeId take(std::vector<NodeId>& from) {
    std::swap(from[dice_.below(from.size())], from.back());
    const NodeId node = from.back();
    from.pop_back();
    return node;
  }

  void start(NodeId node) {
    if (graph_.is_op(node)) {
      for (const TensorId result : graph_.results(node)) {
        const StorageId storage = graph_.storage(result);
        if (graph_.root(storage) == result) make(storage);
      }
      const bool is_elsewhere = graph_.runs_on_host(node);
      peak_ = std::max(peak_, held_ + (is_elsewhere ? Bytes{} : workspace_[node.index()]));
    }
    if (graph_.is_op(node) && is_copy(graph_.op(node))) {
      copying_.push_back(node);
    } else {
      end(node);
    }
  }

  // In the bytes of another one, if nobody else needs that any more.
  void make(StorageId storage) {
    const StorageId taken = takes_over_[storage.index()];
    if (taken.valid() && users_[taken.index()] == 1) {
      is_taken_.push_back(taken);
    } else {
      held_ += size_of(storage);
    }
  }

  void end(NodeId node) {
    for (const StorageId storage : touched(node)) {
      if (--users_[storage.index()] > 0) continue;
      const auto taken = std::find(is_taken_.begin(), is_taken_.end(), storage);
      if (taken == is_taken_.end()) held_ -= size_of(storage);
    }
    for (const Dependence::Edge& edge : dependence_.after(node)) {
      if (--missing_[edge.node.index()] == 0) ready_.push_back(edge.node);
    }
  }

  const Graph& graph_;
  const std::vector<Bytes>& workspace_;
  Dice dice_;
  bool copies_are_late_;
  Dependence dependence_;
  std::vector<std::size_t> missing_;  // by node: how many it waits for
  std::vector<std::size_t> users_;    // by storage: who has not touched it yet
  std::vector<StorageId> takes_over_;
  std::vector<StorageId> is_taken_;
  std::vector<NodeId> ready_;
  std::vector<NodeId> copying_;
  Bytes held_;
  Bytes peak_;
};

// For which TensorFlow has no form.
bool takes_snapshots(const Graph& graph) {
  const auto lines = graph.order();
  return std::any_of(lines.begin(), lines.end(),
                     [&](NodeId node) { return graph.op(node) == kSnapshot; });
}

TEST(ExecutorOrders, HoldNoMoreThanTheBudget) {
  int swapped = 0;
  int recomputed = 0;
  for (std::uint64_t seed = 0, end = how_many(2'000); seed < end; ++seed) {
    const Graph graph =
        random_step(seed, {.layers = static_cast<int>(4 + seed % 12), .plain = seed % 2 == 0});
    const Device device = random_device(seed);
    PlanOptions options{.clock = seed % 4 < 2 ? Clock::kRendezvous : Clock::kEnqueued,
                        .evaluations = 20};
    const auto all = unconstrained_bytes(graph, device, options);
    ASSERT_TRUE(all);
    options.budget = Bytes{all->count * static_cast<std::int64_t>(40 + seed % 60) / 100};
    const auto planned = make_plan(graph, device, options);
    ASSERT_TRUE(planned) << planned.error().message;
    if (!planned->plan || takes_snapshots(planned->plan->graph)) continue;
    swapped += decides(planned->plan->file, "swap") ? 1 : 0;
    recomputed += decides(planned->plan->file, "recompute") ? 1 : 0;
    // Operations on small tensors are not put in order.
    const Bytes most{options.budget.count + options.budget.count / 100};
    for (std::uint64_t order = 0; order < 8; ++order) {
      const Bytes held = RandomExecutor(*planned->plan, seed * 8 + order).peak();
      ASSERT_LE(held, most) << "seed " << seed << ", order " << order << ", budget "
                            << options.budget.count << ", predicted "
                            << planned->plan->peak().count;
    }
  }
  EXPECT_GE(swapped, static_cast<int>(how_many(2'000) / 20));
  EXPECT_GE(recomputed, static_cast<int>(how_many(2'000) / 20));
}

}  // namespace
}  // namespace ebb
