// What the driver knows of a graph: what may leave its place, for which readers, what speaks
// against it, and after which operation it may come back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/graph/dependence.h"
#include "ebb/graph/graph.h"
#include "ebb/order/gamma.h"
#include "ebb/order/reachability.h"
#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/lms_graph.h"
#include "ebb/rewrite/lms_triggers.h"

namespace ebb {

class LmsCandidates {
 public:
  // Of a graph that the verifier accepts and options that were checked; both must outlive this
  // object. O(nodes + edges).
  LmsCandidates(const Graph& graph, const LmsOptions& options);
  LmsCandidates(const LmsCandidates&) = delete;  // its parts point at each other
  LmsCandidates& operator=(const LmsCandidates&) = delete;
  ~LmsCandidates() = default;

  [[nodiscard]] const LmsEdges& edges() const { return edges_; }
  [[nodiscard]] LmsPhase phase(NodeId node) const { return phases_[node.index()]; }
  [[nodiscard]] std::size_t backward_operations() const;
  [[nodiscard]] std::int64_t level(NodeId node) const { return gamma_[node]; }
  [[nodiscard]] std::int64_t levels_between(NodeId earlier, NodeId later) const {
    return level(later) - level(earlier);
  }

  // What the paper and the options leave where it is, and why. Types are not asked here.
  [[nodiscard]] std::optional<LmsRefusal> reason_to_stay(StorageId storage) const;
  // What reads for the backward phase what the forward phase made.
  [[nodiscard]] bool is_forward_to_backward(NodeId producer, NodeId reader) const {
    return phase(producer) == LmsPhase::kForward && phase(reader) == LmsPhase::kBackward &&
           may_read_copy(reader);
  }
  // That, and what the options add.
  [[nodiscard]] bool is_candidate(NodeId producer, NodeId reader) const;

  // Why a storage cannot leave though edges of it may be candidates.
  [[nodiscard]] std::optional<LmsRefusal> obstacle_to(StorageId storage) const;
  [[nodiscard]] std::optional<LmsRefusal> obstacle_between(StorageId storage, NodeId reader) const;

  // Not valid when there is none.
  NodeId find_trigger(NodeId producer, NodeId reader);
  // Whether `later` waits for `earlier`.
  bool waits(NodeId later, NodeId earlier) { return reachability_.reaches(earlier, later); }

 private:
  enum class Obstacle : std::uint8_t { kNone, kFixedView, kUpdated, kAlreadySwapped };

  [[nodiscard]] std::vector<Obstacle> find_obstacles() const;
  [[nodiscard]] bool can_be_remade(NodeId view, TensorId root, const Updates& updates) const;
  [[nodiscard]] bool may_read_copy(NodeId reader) const;

  const Graph& graph_;
  const LmsOptions& options_;
  Gamma gamma_;
  std::vector<LmsPhase> phases_;
  LmsEdges edges_;
  Dependence dependence_;
  Reachability reachability_;
  LmsTriggers triggers_;
  std::vector<Obstacle> obstacles_;  // by storage
};

}  // namespace ebb
