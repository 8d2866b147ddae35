#include "ebb/rewrite/lms_candidates.h"

#include <algorithm>
#include <string_view>

#include "ebb/graph/control_flow.h"
#include "ebb/graph/dependence.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/views.h"
#include "ebb/order/variables.h"
#include "ebb/rewrite/lms_names.h"

namespace ebb {
namespace {

bool is_opaque(DType dtype) {
  return dtype == DType::kResource || dtype == DType::kVariant || dtype == DType::kString;
}

}  // namespace

LmsCandidates::LmsCandidates(const Graph& graph, const LmsOptions& options)
    : graph_(graph),
      options_(options),
      gamma_(graph),
      phases_(find_phases(graph, options.optimizer_scopes)),
      edges_(graph),
      dependence_(graph),
      reachability_(graph, dependence_),
      triggers_(graph, gamma_, phases_, edges_, dependence_, reachability_,
                {options.lb, options.ub}),
      obstacles_(find_obstacles()) {}

std::size_t LmsCandidates::backward_operations() const {
  return static_cast<std::size_t>(std::count(phases_.begin(), phases_.end(), LmsPhase::kBackward));
}

std::vector<LmsCandidates::Obstacle> LmsCandidates::find_obstacles() const {
  std::vector<Obstacle> obstacles(graph_.storage_count(), Obstacle::kNone);
  const auto note = [&](TensorId tensor, Obstacle obstacle) {
    Obstacle& known = obstacles[graph_.storage(tensor).index()];
    known = std::max(known, obstacle);
  };
  for (const NodeId node : graph_.order()) {
    const bool goes_out = graph_.op(node) == kSwapOut || graph_.op(node) == kEncode;
    for (const Operand& operand : graph_.operands(node)) {
      if (!operand.tensor.valid()) continue;
      if (operand.access == Access::kUpdate) note(operand.tensor, Obstacle::kUpdated);
      if (goes_out) note(operand.tensor, Obstacle::kAlreadySwapped);
    }
  }
  const Updates updates(graph_);
  for (const NodeId node : graph_.order()) {
    for (const TensorId result : graph_.results(node)) {
      const TensorId root = graph_.root(graph_.storage(result));
      if (root == result || can_be_remade(node, root, updates)) {
        continue;
      }
      note(result, Obstacle::kFixedView);
    }
  }
  return obstacles;
}

// Whether what makes a view of `root` may run again later, on a copy.
bool LmsCandidates::can_be_remade(NodeId view, TensorId root, const Updates& updates) const {
  const auto operands = graph_.operands(view);
  const NodeId producer = graph_.producer(root);
  // Between the elements of an input may be more of them.
  if (!graph_.is_op(producer) && may_have_gaps(graph_.type(root))) return false;
  return makes_only_views(graph_, view) && graph_.scope(view) == graph_.scope(producer) &&
         std::none_of(operands.begin(), operands.end(), [&](const Operand& operand) {
           return operand.tensor.valid() && (is_opaque(graph_.type(operand.tensor).dtype) ||
                                             updates.is_updated(graph_.storage(operand.tensor)));
         });
}

std::optional<LmsRefusal> LmsCandidates::reason_to_stay(StorageId storage) const {
  const TensorId tensor = graph_.root(storage);
  const NodeId producer = graph_.producer(tensor);
  const auto size = graph_.size(storage);
  if (graph_.residence(storage) == Residence::kHost) return LmsRefusal::kOnHost;
  if (is_opaque(graph_.type(tensor).dtype)) return LmsRefusal::kOpaque;
  if (reads_whole_variable(graph_, producer)) return LmsRefusal::kVariable;
  if (is_copy(graph_.op(producer))) return LmsRefusal::kAlreadySwapped;
  if (size && (size->count == 0 || *size < options_.min_bytes)) return LmsRefusal::kSmall;
  const std::string_view name = graph_.name(producer);
  const bool is_included = options_.incl_scopes.empty() || in_any_scope(name, options_.incl_scopes);
  if (!is_included || in_any_scope(name, options_.excl_scopes)) return LmsRefusal::kExcluded;
  return std::nullopt;
}

bool LmsCandidates::may_read_copy(NodeId reader) const {
  return !graph_.runs_on_host(reader) && !is_copy(graph_.op(reader)) &&
         !assigns_variable(graph_, reader);
}

bool LmsCandidates::is_candidate(NodeId producer, NodeId reader) const {
  if (!may_read_copy(reader)) return false;
  const std::int64_t span = levels_between(producer, reader);
  if (options_.whole_graph && span >= options_.alpha) return true;
  if (phase(producer) != LmsPhase::kForward) return false;
  if (phase(reader) == LmsPhase::kBackward) return true;
  return options_.swap_branches && phase(reader) == LmsPhase::kForward &&
         span > options_.branch_threshold;
}

std::optional<LmsRefusal> LmsCandidates::obstacle_to(StorageId storage) const {
  switch (obstacles_[storage.index()]) {
    case Obstacle::kNone:
      break;
    case Obstacle::kFixedView:
      return LmsRefusal::kFixedView;
    case Obstacle::kUpdated:
      return LmsRefusal::kUpdated;
    case Obstacle::kAlreadySwapped:
      return LmsRefusal::kAlreadySwapped;
  }
  return std::nullopt;
}

std::optional<LmsRefusal> LmsCandidates::obstacle_between(StorageId storage, NodeId reader) const {
  if (const auto obstacle = obstacle_to(storage)) return obstacle;
  const NodeId producer = graph_.producer(graph_.root(storage));
  // An input is where it is read first.
  const NodeId home = graph_.is_op(producer) ? producer : edges_.readers(storage).front();
  if (graph_.device(home) != graph_.device(reader)) return LmsRefusal::kOtherDevice;
  if (graph_.scope(producer) != graph_.scope(reader) || makes_elsewhere(graph_, producer)) {
    return LmsRefusal::kOtherScope;
  }
  // The swap-out is one level after the producer, the trigger after that, the reader after that.
  if (levels_between(producer, reader) < 3) return LmsRefusal::kTooClose;
  return std::nullopt;
}

NodeId LmsCandidates::find_trigger(NodeId producer, NodeId reader) {
  const bool follows_chain = options_.ctrld_strategy == "chain_rule" &&
                             phase(producer) == LmsPhase::kForward &&
                             phase(reader) == LmsPhase::kBackward;
  return follows_chain ? triggers_.chain_rule(producer, reader)
                       : triggers_.direct_order(producer, reader);
}

}  // namespace ebb
