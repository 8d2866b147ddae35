#include "ebb/rewrite/lms_triggers.h"

#include <algorithm>
#include <numeric>

#include "ebb/graph/ebb_ops.h"

namespace ebb {

LmsTriggers::LmsTriggers(const Graph& graph, const Gamma& gamma,
                         const std::vector<LmsPhase>& phases, const LmsEdges& edges,
                         Reachability& reachability, Bounds bounds)
    : graph_(graph),
      gamma_(gamma),
      phases_(phases),
      edges_(edges),
      reachability_(reachability),
      bounds_(bounds),
      level_starts_(gamma.highest() + 2),
      searches_(graph.node_count()),
      last_round_(graph.node_count()) {
  for (const NodeId node : graph.order()) {
    if (may_trigger(node)) ++level_starts_[gamma[node] + 1];
  }
  std::partial_sum(level_starts_.begin(), level_starts_.end(), level_starts_.begin());
  level_nodes_.resize(level_starts_.back());
  std::vector<std::uint32_t> next(level_starts_.begin(), level_starts_.end() - 1);
  for (const NodeId node : graph.order()) {
    if (may_trigger(node)) level_nodes_[next[gamma[node]]++] = node;
  }
}

bool LmsTriggers::may_trigger(NodeId node) const {
  return !graph_.runs_on_host(node) && !is_copy(graph_.op(node)) &&
         !makes_only_views(graph_, node);
}

bool LmsTriggers::fits(NodeId g, NodeId f2) {
  return graph_.scope(g) == graph_.scope(f2) && reachability_.reaches(g, f2);
}

NodeId LmsTriggers::direct_order(NodeId f1, NodeId f2) {
  const auto target = static_cast<std::int64_t>(gamma_[f2]);
  const std::int64_t swap_out = static_cast<std::int64_t>(gamma_[f1]) + 1;
  const std::int64_t lowest = std::max(swap_out + 1, target - bounds_.ub);
  Search& search = searches_[f2.index()];
  if (search.next_level == kNotBegun) {
    search.next_level = std::max<std::int64_t>(target - bounds_.lb, 0);
  }
  for (; !search.found.valid() && search.next_level >= lowest; --search.next_level) {
    const std::uint32_t begin = level_starts_[static_cast<std::size_t>(search.next_level)];
    const std::uint32_t end = level_starts_[static_cast<std::size_t>(search.next_level) + 1];
    for (std::uint32_t i = begin; i < end && !search.found.valid(); ++i) {
      if (fits(level_nodes_[i], f2)) search.found = level_nodes_[i];
    }
  }
  const bool is_there = search.found.valid() && gamma_[search.found] >= lowest;
  return is_there ? search.found : NodeId();
}

NodeId LmsTriggers::chain_rule(NodeId f1, NodeId f2) {
  if (f1 != producer_) start_levels(f1);
  for (std::size_t i = 0; i < candidates_.size() || add_level(); ++i) {
    const std::vector<NodeId>& level = candidates_[i];
    auto at = std::partition_point(level.begin(), level.end(),
                                   [&](NodeId g) { return gamma_[g] >= gamma_[f2]; });
    at = std::find_if(at, level.end(), [&](NodeId g) { return fits(g, f2); });
    if (at != level.end()) return *at;
  }
  return {};
}

void LmsTriggers::start_levels(NodeId f1) {
  producer_ = f1;
  depth_ = 0;
  front_.assign(1, f1);
  candidates_.clear();
  last_round_[f1.index()] = ++round_;
}

// Goes on to the next level that has a candidate; false when there is none.
bool LmsTriggers::add_level() {
  std::vector<NodeId> found;
  for (; found.empty() && !front_.empty() && depth_ < bounds_.ub; ++depth_) {
    next_front_.clear();
    for (const NodeId s : front_) {
      edges_.find_successors(s, successors_);
      for (const NodeId next : successors_) {
        const LmsPhase phase = phases_[next.index()];
        // A backward operation that was no trigger in an earlier level is none in a later one. All
        // come after the swap-out: they read what reads, however indirectly, what f1 made.
        const bool wanted =
            phase == LmsPhase::kForward ||
            (phase == LmsPhase::kBackward && depth_ >= bounds_.lb && may_trigger(next));
        if (!wanted || last_round_[next.index()] == round_) continue;
        last_round_[next.index()] = round_;
        (phase == LmsPhase::kForward ? next_front_ : found).push_back(next);
      }
    }
    front_.swap(next_front_);
  }
  if (found.empty()) return false;
  std::sort(found.begin(), found.end(), [this](NodeId a, NodeId b) {
    if (gamma_[a] != gamma_[b]) return gamma_[a] > gamma_[b];
    return edges_.position(a) < edges_.position(b);
  });
  candidates_.push_back(std::move(found));
  return true;
}

}  // namespace ebb
