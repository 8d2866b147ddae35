// The paper's two strategies for finding the operation after which a tensor comes back.
//
// For an edge from f1 to f2 a trigger g satisfies γ(swap-out) < γ(g) < γ(f2), where the swap-out
// has γ(f1) + 1, and f2 waits for g in the dependence order, so that the new control edge closes no
// cycle. It runs on the device, in f2's control-flow scope, and is no view, which runs no code.
// Where the paper picks at random: the largest γ, then the first in line order.
//
// direct_order (Algorithm 1): the nearest level below f2, at a distance from lb to ub, both
//   included, that has a candidate. (The printed line 1 contradicts the printed loop and text.)
//   Levels are lists by γ. What was found for a reader serves all its operands. Usually O(1):
//   somebody at γ(f2) - 1 is what gave f2 its γ.
// chain_rule (Algorithm 2): whole levels of forward operations, breadth-first from f1, which is
//   level 0; the first level from lb to ub - 1, in which an operation has a backward reader that is
//   a candidate. (As printed: the search ends when ub has been counted down to 0.) Line 11 is read
//   as "reachable". An operation is in one level only. What the levels hold is kept for all readers
//   of what f1 made. O(operations within the levels searched). Two numbers a node, found in one
//   walk each, say when there is nothing to search for: how late the backward operations are that
//   f2 waits for, and how early those that lie ahead of a forward operation.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/graph/dependence.h"
#include "ebb/graph/graph.h"
#include "ebb/order/gamma.h"
#include "ebb/order/reachability.h"
#include "ebb/rewrite/lms_graph.h"

namespace ebb {

class LmsTriggers {
 public:
  struct Bounds {
    std::int64_t lb = 1;
    std::int64_t ub = 10000;
  };

  // All must outlive this object.
  LmsTriggers(const Graph& graph, const Gamma& gamma, const std::vector<LmsPhase>& phases,
              const LmsEdges& edges, const Dependence& dependence, Reachability& reachability,
              Bounds bounds);

  // The trigger; not valid when there is none.
  NodeId direct_order(NodeId f1, NodeId f2);
  NodeId chain_rule(NodeId f1, NodeId f2);

 private:
  // Of a reader: how far down the levels were searched, and what was found there.
  struct Search {
    std::int64_t next_level = kNotBegun;
    NodeId found;
  };
  static constexpr std::int64_t kNotBegun = -1;

  [[nodiscard]] bool may_trigger(NodeId node) const { return may_trigger_[node.index()]; }
  [[nodiscard]] bool is_candidate(NodeId node) const {
    return phases_[node.index()] == LmsPhase::kBackward && may_trigger(node);
  }
  void sort_by_level();
  void look_behind(const Dependence& dependence);
  void look_ahead();
  // Whether f2 may wait for g.
  bool fits(NodeId g, NodeId f2);
  void start_levels(NodeId f1);
  bool add_level(std::uint32_t gamma_end);

  const Graph& graph_;
  const Gamma& gamma_;
  const std::vector<LmsPhase>& phases_;
  const LmsEdges& edges_;
  Reachability& reachability_;
  Bounds bounds_;
  std::vector<bool> may_trigger_;  // by node

  // Algorithm 1.
  std::vector<std::uint32_t> level_starts_;  // by γ
  std::vector<NodeId> level_nodes_;          // that may trigger, in line order within a level
  std::vector<Search> searches_;             // by node

  // Algorithm 2. By node: the largest γ of the candidates that it waits for, 0 without any; and the
  // least γ of those that read what it makes, or what forward operations from there on make.
  std::vector<std::uint32_t> latest_behind_;
  std::vector<std::uint32_t> earliest_ahead_;
  static constexpr std::uint32_t kNoneAhead = 0xFFFFFFFF;
  // For the producer looked at last.
  NodeId producer_;
  std::int64_t depth_ = 0;     // of the front
  std::vector<NodeId> front_;  // forward operations whose successors are to be looked at
  std::uint32_t earliest_ahead_of_front_ = kNoneAhead;
  std::vector<NodeId> next_front_;
  std::vector<NodeId> successors_;
  std::vector<NodeId> candidates_;         // level by level, largest γ first
  std::vector<std::size_t> level_ends_;    // in candidates_
  std::vector<std::uint32_t> last_round_;  // by node, when it was put into a level
  std::uint32_t round_ = 0;
};

}  // namespace ebb
