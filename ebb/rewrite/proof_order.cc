#include "ebb/rewrite/proof_order.h"

#include <ranges>
#include <unordered_set>
#include <vector>

#include "ebb/graph/dependence.h"
#include "ebb/order/reachability.h"

namespace ebb {
namespace {

// Where in the original's dependence order something happens that the world sees.
class Seen {
 public:
  explicit Seen(const Graph& graph)
      : dependence_(graph), before_(graph.node_count()), after_(graph.node_count()) {
    for (const NodeId node : graph.order()) {
      before_[node.index()] = graph.effect(node) != Effect::kPure;
      for (const auto& edge : dependence_.before(node)) {
        if (before_[edge.node.index()]) before_[node.index()] = true;
      }
    }
    for (const NodeId node : graph.order() | std::views::reverse) {
      after_[node.index()] = graph.effect(node) != Effect::kPure;
      for (const auto& edge : dependence_.after(node)) {
        if (after_[edge.node.index()]) after_[node.index()] = true;
      }
    }
  }

  [[nodiscard]] const Dependence& dependence() const { return dependence_; }
  // This node, or one it waits for.
  [[nodiscard]] bool before(NodeId node) const { return before_[node.index()]; }
  // This node, or one that waits for it.
  [[nodiscard]] bool after(NodeId node) const { return after_[node.index()]; }

 private:
  Dependence dependence_;
  std::vector<bool> before_;
  std::vector<bool> after_;
};

// Built when first asked: most rewritings keep every edge.
class Orders {
 public:
  explicit Orders(const Matching& matching) : matching_(matching) {}

  // In the rewritten graph.
  bool waits(NodeId waiter, NodeId first) {
    if (!reachability_) {
      dependence_.emplace(matching_.rewritten());
      reachability_.emplace(matching_.rewritten(), *dependence_);
    }
    return reachability_->reaches(first, waiter);
  }

  // In the original `second` waits for `first`. Whether in the rewritten graph `waiter`, which is
  // or repeats `second`, waits for all that the world sees of `first` and of what stands before it;
  // or nobody would see whether it does.
  bool keeps_seen(NodeId first, NodeId second, NodeId waiter) {
    if (!seen_) seen_.emplace(matching_.original());
    const Seen& seen = *seen_;
    if (!seen.after(second)) return true;
    std::vector<NodeId> stack = {first};
    std::unordered_set<NodeId> asked = {first};
    while (!stack.empty()) {
      const NodeId node = stack.back();
      stack.pop_back();
      if (!seen.before(node) || waits(waiter, matching_.counterpart(node))) continue;
      if (matching_.original().effect(node) != Effect::kPure) return false;
      for (const auto& edge : seen.dependence().before(node)) {
        if (asked.insert(edge.node).second) stack.push_back(edge.node);
      }
    }
    return true;
  }

 private:
  const Matching& matching_;
  std::optional<Dependence> dependence_;
  std::optional<Reachability> reachability_;
  std::optional<Seen> seen_;
};

}  // namespace

std::optional<Difference> find_moved_effect(const Matching& matching) {
  const Graph& original = matching.original();
  const Graph& rewritten = matching.rewritten();
  auto next = rewritten.order().begin();
  for (const NodeId node : original.order()) {
    if (!is_ordered_by_lines(original, node)) continue;
    while (!is_ordered_by_lines(rewritten, *next)) ++next;
    const NodeId now = *next++;
    if (now == matching.counterpart(node)) continue;
    return Difference{"S09", node, now,
                      fmt::format("'{}' stands before '{}', which stands first in the original; "
                                  "operations that are random or have effects keep their order: "
                                  "{} and {}",
                                  rewritten.name(now), original.name(node), quoted(rewritten, now),
                                  quoted(original, node))};
  }
  return {};
}

std::optional<Difference> find_lost_order(const Matching& matching, const NodeProver& nodes) {
  const Graph& original = matching.original();
  const Graph& rewritten = matching.rewritten();
  Orders orders(matching);
  for (const auto& [first, second, waiter, is_control] : nodes.lost_edges()) {
    const bool is_clone = matching.is_added(waiter);
    const bool kept = is_control && !is_clone ? orders.waits(waiter, matching.counterpart(first))
                                              : orders.keeps_seen(first, second, waiter);
    if (kept) continue;
    return Difference{"S10", second, waiter,
                      fmt::format("'{}' does not wait for '{}', {}: {} and {}",
                                  rewritten.name(waiter), original.name(first),
                                  is_clone ? "as the operation does that it repeats"
                                           : "as it does in the original",
                                  quoted(original, second), quoted(rewritten, waiter))};
  }
  if (nodes.freed_readers().empty()) return {};
  const Updates updates(original);
  for (const auto& [reader, tensor] : nodes.freed_readers()) {
    const StorageId storage = original.storage(tensor);
    if (!updates.is_updated(storage)) continue;
    const NodeId updater = updates.updater(storage, original.version(tensor));
    if (!updater.valid()) continue;
    const NodeId reader_now = matching.counterpart(reader);
    const NodeId updater_now = matching.counterpart(updater);
    if (orders.keeps_seen(reader, updater, updater_now)) continue;
    return Difference{
        "S10", reader, reader_now,
        fmt::format("'{}' does not wait for '{}', which reads a copy of %{} now, and "
                    "effects that the original orders could overtake each other; add "
                    "a control edge: {} and {}",
                    rewritten.name(updater_now), rewritten.name(reader_now), original.name(tensor),
                    quoted(rewritten, updater_now), quoted(rewritten, reader_now))};
  }
  return {};
}

}  // namespace ebb
