#include "ebb/rewrite/lms_triggers.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "ebb/graph/control_flow.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/views.h"

namespace ebb {

LmsTriggers::LmsTriggers(const Graph& graph, const Gamma& gamma,
                         const std::vector<LmsPhase>& phases, const LmsEdges& edges,
                         const Dependence& dependence, Reachability& reachability, Bounds bounds)
    : graph_(graph),
      gamma_(gamma),
      phases_(phases),
      edges_(edges),
      reachability_(reachability),
      bounds_(bounds),
      may_trigger_(graph.node_count()),
      level_starts_(gamma.highest() + 2),
      searches_(graph.node_count()),
      latest_behind_(graph.node_count()),
      earliest_ahead_(graph.node_count(), kNoneAhead),
      last_round_(graph.node_count()) {
  for (const NodeId node : graph.order()) {
    may_trigger_[node.index()] =
        !graph.runs_on_host(node) && !is_copy(graph.op(node)) && !makes_only_views(graph, node);
  }
  sort_by_level();
  look_behind(dependence);
  look_ahead();
}

void LmsTriggers::sort_by_level() {
  for (const NodeId node : graph_.order()) {
    if (may_trigger(node)) ++level_starts_[gamma_[node] + 1];
  }
  std::partial_sum(level_starts_.begin(), level_starts_.end(), level_starts_.begin());
  level_nodes_.resize(level_starts_.back());
  std::vector<std::uint32_t> next(level_starts_.begin(), level_starts_.end() - 1);
  for (const NodeId node : graph_.order()) {
    if (may_trigger(node)) level_nodes_[next[gamma_[node]]++] = node;
  }
}

void LmsTriggers::look_behind(const Dependence& dependence) {
  for (const NodeId node : graph_.order()) {
    std::uint32_t& latest = latest_behind_[node.index()];
    for (const auto& edge : dependence.before(node)) {
      latest = std::max(latest, latest_behind_[edge.node.index()]);
      if (is_candidate(edge.node)) latest = std::max(latest, gamma_[edge.node]);
    }
  }
}

void LmsTriggers::look_ahead() {
  const auto order = graph_.order();
  for (std::size_t i = order.size(); i-- > 0;) {
    std::uint32_t& earliest = earliest_ahead_[order[i].index()];
    for (const TensorId result : graph_.results(order[i])) {
      const StorageId storage = graph_.storage(result);
      if (graph_.root(storage) != result) {
        earliest = 0;  // not known: readers of bytes that were there before may stand above
        break;
      }
      for (const NodeId reader : edges_.readers(storage)) {
        if (phases_[reader.index()] == LmsPhase::kForward) {
          earliest = std::min(earliest, earliest_ahead_[reader.index()]);
        } else if (is_candidate(reader)) {
          earliest = std::min(earliest, gamma_[reader]);
        }
      }
    }
  }
}

bool LmsTriggers::fits(NodeId g, NodeId f2) {
  return graph_.scope(g) == graph_.scope(f2) && !leads_elsewhere(graph_, g) &&
         reachability_.reaches(g, f2);
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
  const std::uint32_t gamma_end = std::min(gamma_[f2], latest_behind_[f2.index()] + 1);
  if (gamma_end <= gamma_[f1] + 2) return {};
  if (f1 != producer_) start_levels(f1);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < level_ends_.size() || add_level(gamma_end);
       begin = level_ends_[i++]) {
    const auto level = std::span(candidates_).subspan(begin, level_ends_[i] - begin);
    auto at = std::partition_point(level.begin(), level.end(),
                                   [&](NodeId g) { return gamma_[g] >= gamma_end; });
    at = std::find_if(at, level.end(), [&](NodeId g) { return fits(g, f2); });
    if (at != level.end()) return *at;
  }
  return {};
}

void LmsTriggers::start_levels(NodeId f1) {
  producer_ = f1;
  depth_ = 0;
  front_.assign(1, f1);
  earliest_ahead_of_front_ = earliest_ahead_[f1.index()];
  candidates_.clear();
  level_ends_.clear();
  last_round_[f1.index()] = ++round_;
}

// Goes on to the next level that has a candidate; false when there is none with a γ below the end.
bool LmsTriggers::add_level(std::uint32_t gamma_end) {
  const std::size_t begin = candidates_.size();
  for (; candidates_.size() == begin && earliest_ahead_of_front_ < gamma_end && depth_ < bounds_.ub;
       ++depth_) {
    next_front_.clear();
    earliest_ahead_of_front_ = kNoneAhead;
    for (const NodeId s : front_) {
      edges_.find_successors(s, successors_);
      for (const NodeId next : successors_) {
        const bool is_forward = phases_[next.index()] == LmsPhase::kForward;
        // A backward operation that was no trigger in an earlier level is none in a later one. Most
        // come after the swap-out by themselves, but not those that read what s overwrites.
        const bool wanted = is_forward ? earliest_ahead_[next.index()] != kNoneAhead
                                       : depth_ >= bounds_.lb && is_candidate(next) &&
                                             gamma_[next] > gamma_[producer_] + 1;
        if (!wanted || last_round_[next.index()] == round_) continue;
        last_round_[next.index()] = round_;
        (is_forward ? next_front_ : candidates_).push_back(next);
        if (is_forward) {
          earliest_ahead_of_front_ =
              std::min(earliest_ahead_of_front_, earliest_ahead_[next.index()]);
        }
      }
    }
    front_.swap(next_front_);
  }
  if (candidates_.size() == begin) return false;
  const auto level = std::span(candidates_).subspan(begin);
  std::sort(level.begin(), level.end(), [this](NodeId a, NodeId b) {
    if (gamma_[a] != gamma_[b]) return gamma_[a] > gamma_[b];
    return edges_.position(a) < edges_.position(b);
  });
  level_ends_.push_back(candidates_.size());
  return true;
}

}  // namespace ebb
