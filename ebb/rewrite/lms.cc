#include "ebb/rewrite/lms.h"

#include <algorithm>
#include <optional>

#include "ebb/graph/dependence.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/order/gamma.h"
#include "ebb/order/reachability.h"
#include "ebb/rewrite/codec.h"
#include "ebb/rewrite/lms_graph.h"
#include "ebb/rewrite/lms_names.h"
#include "ebb/rewrite/lms_triggers.h"

namespace ebb {
namespace {

// What a framework reads out of a variable's handle is the variable, under another name.
bool reads_whole_variable(const Graph& graph, NodeId node) {
  if (is_of_type(graph.op(node), "ReadVariableOp")) return true;
  const auto operands = graph.operands(node);
  return is_of_type(graph.op(node), "Identity") && !operands.empty() &&
         operands[0].tensor.valid() && graph.type(operands[0].tensor).dtype == DType::kResource;
}

bool is_opaque(DType dtype) {
  return dtype == DType::kResource || dtype == DType::kVariant || dtype == DType::kString;
}

class Driver {
 public:
  Driver(const Graph& graph, const LmsOptions& options, const TrySwap& try_swap)
      : graph_(graph),
        options_(options),
        try_swap_(try_swap),
        gamma_(graph),
        phases_(find_phases(graph, options.optimizer_scopes)),
        edges_(graph),
        dependence_(graph),
        reachability_(graph, dependence_),
        triggers_(graph, gamma_, phases_, edges_, dependence_, reachability_,
                  {options.lb, options.ub}),
        obstacles_(find_obstacles()),
        is_considered_(graph.storage_count()) {}

  LmsPlan run() {
    plan_.backward_operations =
        static_cast<std::size_t>(std::count(phases_.begin(), phases_.end(), LmsPhase::kBackward));
    if (options_.n_tensors == 0) return std::move(plan_);
    std::vector<NodeId> queue = find_starts();
    std::vector<bool> is_queued(graph_.node_count());
    for (const NodeId node : queue) is_queued[node.index()] = true;
    std::vector<NodeId> successors;
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const NodeId node = queue[head];
      for (const TensorId result : graph_.results(node)) {
        consider(graph_.storage(result));
        if (static_cast<std::int64_t>(plan_.swaps.size()) == options_.n_tensors) {
          return std::move(plan_);
        }
      }
      edges_.find_successors(node, successors);
      for (const NodeId next : successors) {
        if (is_queued[next.index()]) continue;
        is_queued[next.index()] = true;
        queue.push_back(next);
      }
    }
    return std::move(plan_);
  }

 private:
  // Why a storage cannot be swapped though edges of it may be candidates.
  enum class Obstacle : std::uint8_t { kNone, kFixedView, kUpdated, kAlreadySwapped };

  std::vector<Obstacle> find_obstacles() const {
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
    for (const NodeId node : graph_.order()) {
      for (const TensorId result : graph_.results(node)) {
        const TensorId root = graph_.root(graph_.storage(result));
        if (root == result || can_be_remade(node, root, obstacles)) {
          continue;
        }
        note(result, Obstacle::kFixedView);
      }
    }
    return obstacles;
  }

  // Whether what makes a view of `root` may run again later, on a copy.
  [[nodiscard]] bool can_be_remade(NodeId view, TensorId root,
                                   const std::vector<Obstacle>& obstacles) const {
    const auto operands = graph_.operands(view);
    const NodeId producer = graph_.producer(root);
    // Between the elements of an input may be more of them.
    if (!graph_.is_op(producer) && may_have_gaps(graph_.type(root))) return false;
    return makes_only_views(graph_, view) && graph_.scope(view) == graph_.scope(producer) &&
           std::none_of(operands.begin(), operands.end(), [&](const Operand& operand) {
             return operand.tensor.valid() &&
                    (is_opaque(graph_.type(operand.tensor).dtype) ||
                     obstacles[graph_.storage(operand.tensor).index()] == Obstacle::kUpdated);
           });
  }

  std::vector<NodeId> find_starts() const {
    std::vector<bool> is_named(graph_.node_count());
    for (const std::string& name : options_.starting_op_names) {
      is_named[graph_.find_node(name).index()] = true;
    }
    const bool anywhere = options_.starting_scope.empty() && options_.starting_op_names.empty();
    std::vector<NodeId> starts;
    for (const NodeId node : graph_.order()) {
      const bool is_input = graph_.kind(node) == NodeKind::kInput;
      if (!is_input && !graph_.is_op(node)) continue;
      const bool starts_here =
          anywhere ? is_input
                   : is_named[node.index()] || in_scope(graph_.name(node), options_.starting_scope);
      if (starts_here) starts.push_back(node);
    }
    return starts.empty() ? find_sources() : starts;
  }

  // In a graph that is fed by operations, as by a framework's iterators: those that read no other.
  std::vector<NodeId> find_sources() const {
    std::vector<NodeId> sources;
    for (const NodeId node : graph_.order()) {
      const auto operands = graph_.operands(node);
      const bool reads_op =
          std::any_of(operands.begin(), operands.end(), [this](const Operand& operand) {
            return operand.tensor.valid() && graph_.is_op(graph_.producer(operand.tensor));
          });
      if (!reads_op) sources.push_back(node);
    }
    return sources;
  }

  // Decides about one storage, when the walk first comes to a tensor in it.
  void consider(StorageId storage) {
    if (is_considered_[storage.index()]) return;
    is_considered_[storage.index()] = true;
    if (!may_move(storage)) return;
    const TensorId tensor = graph_.root(storage);
    const NodeId producer = graph_.producer(tensor);
    std::vector<NodeId> readers;
    for (const NodeId reader : edges_.readers(storage)) {
      if (!is_candidate(producer, reader)) continue;
      if (const auto reason = obstacle_between(storage, reader)) {
        plan_.refused.push_back({tensor, reader, *reason});
      } else {
        readers.push_back(reader);
      }
    }
    SwapDecision swap{.tensor = tensor, .groups = {}, .codec = {}};
    group_readers(tensor, std::move(readers), swap.groups);
    if (swap.groups.empty()) return;
    if (!options_.codec.empty()) {
      const bool takes_it = encoded_type(options_.codec, graph_.type(tensor)).has_value() &&
                            !find_unserved(graph_, tensor, swap.groups, options_.codec);
      if (takes_it) swap.codec = options_.codec;
      swap.codec_side = options_.codec_on_host ? CodecSide::kHost : CodecSide::kDevice;
    }
    if (try_swap_ && !is_taken(swap)) return;
    plan_.is_lossy =
        plan_.is_lossy || (!swap.codec.empty() && !find_codec(swap.codec)->is_lossless);
    plan_.not_encoded += !options_.codec.empty() && swap.codec.empty() ? 1 : 0;
    plan_.swap_ins += swap.groups.size();
    const auto size = graph_.size(storage);
    plan_.bytes += size.value_or(Bytes{});
    plan_.unknown_sizes += size ? 0 : 1;
    plan_.swaps.push_back(std::move(swap));
  }

  // Otherwise its edges are left alone.
  bool is_taken(const SwapDecision& swap) {
    const Status taken = try_swap_(swap);
    if (taken) return true;
    for (const ReaderGroup& group : swap.groups) {
      for (const NodeId reader : group.readers) {
        plan_.refused.push_back({swap.tensor, reader, LmsRefusal::kByRule, taken.error().message});
      }
    }
    return false;
  }

  // What the paper and the options leave where it is, without a word.
  [[nodiscard]] bool may_move(StorageId storage) const {
    const TensorId tensor = graph_.root(storage);
    const NodeId producer = graph_.producer(tensor);
    const auto size = graph_.size(storage);
    if (size && (size->count == 0 || *size < options_.min_bytes)) return false;
    if (graph_.residence(storage) == Residence::kHost) return false;
    if (is_opaque(graph_.type(tensor).dtype) || reads_whole_variable(graph_, producer)) {
      return false;
    }
    const std::string_view name = graph_.name(producer);
    const std::string_view op = graph_.op(producer);
    if (is_copy(graph_.op(producer))) return false;
    if (in_any_scope(name, options_.excl_scopes)) return false;
    if (is_of_any_type(op, options_.excl_types)) return false;
    if (!options_.incl_scopes.empty() && !in_any_scope(name, options_.incl_scopes)) return false;
    return options_.incl_types.empty() || is_of_any_type(op, options_.incl_types);
  }

  [[nodiscard]] bool is_candidate(NodeId producer, NodeId reader) const {
    if (graph_.runs_on_host(reader) || is_copy(graph_.op(reader)) ||
        assigns_variable(graph_, reader)) {
      return false;
    }
    const std::int64_t span = levels_between(producer, reader);
    if (options_.whole_graph && span >= options_.alpha) return true;
    if (phase(producer) != LmsPhase::kForward) return false;
    if (phase(reader) == LmsPhase::kBackward) return true;
    return options_.swap_branches && phase(reader) == LmsPhase::kForward &&
           span > options_.branch_threshold;
  }

  [[nodiscard]] std::optional<LmsRefusal> obstacle_between(StorageId storage, NodeId reader) const {
    const NodeId producer = graph_.producer(graph_.root(storage));
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
    // An input is where it is read first.
    const NodeId home = graph_.is_op(producer) ? producer : edges_.readers(storage).front();
    if (graph_.device(home) != graph_.device(reader)) return LmsRefusal::kOtherDevice;
    if (graph_.scope(producer) != graph_.scope(reader)) return LmsRefusal::kOtherScope;
    // The swap-out is one level after the producer, the trigger after that, the reader after that.
    if (levels_between(producer, reader) < 3) return LmsRefusal::kTooClose;
    return std::nullopt;
  }

  // Finds triggers, and refuses readers that have none. The trigger of a group is that of its first
  // reader; a reader that does not wait for it is left for another group.
  void group_readers(TensorId tensor, std::vector<NodeId> readers,
                     std::vector<ReaderGroup>& groups) {
    std::stable_sort(readers.begin(), readers.end(),
                     [this](NodeId a, NodeId b) { return gamma_[a] < gamma_[b]; });
    const std::int64_t reach = options_.fuse_swapins ? options_.fuse_distance : -1;
    std::vector<bool> is_grouped(readers.size());
    for (std::size_t i = 0; i < readers.size(); ++i) {
      if (is_grouped[i]) continue;
      const NodeId trigger = find_trigger(graph_.producer(tensor), readers[i]);
      if (!trigger.valid()) {
        plan_.refused.push_back({tensor, readers[i], LmsRefusal::kNoTrigger});
        continue;
      }
      ReaderGroup group{.readers = {readers[i]}, .trigger = trigger};
      for (std::size_t j = i + 1;
           j < readers.size() && levels_between(readers[i], readers[j]) <= reach; ++j) {
        if (is_grouped[j] || !reachability_.reaches(trigger, readers[j])) continue;
        is_grouped[j] = true;
        group.readers.push_back(readers[j]);
      }
      groups.push_back(std::move(group));
    }
  }

  NodeId find_trigger(NodeId producer, NodeId reader) {
    const bool follows_chain = options_.ctrld_strategy == "chain_rule" &&
                               phase(producer) == LmsPhase::kForward &&
                               phase(reader) == LmsPhase::kBackward;
    return follows_chain ? triggers_.chain_rule(producer, reader)
                         : triggers_.direct_order(producer, reader);
  }

  [[nodiscard]] LmsPhase phase(NodeId node) const { return phases_[node.index()]; }
  [[nodiscard]] std::int64_t levels_between(NodeId earlier, NodeId later) const {
    return static_cast<std::int64_t>(gamma_[later]) - static_cast<std::int64_t>(gamma_[earlier]);
  }

  const Graph& graph_;
  const LmsOptions& options_;
  const TrySwap& try_swap_;
  Gamma gamma_;
  std::vector<LmsPhase> phases_;
  LmsEdges edges_;
  Dependence dependence_;
  Reachability reachability_;
  LmsTriggers triggers_;
  std::vector<Obstacle> obstacles_;  // by storage
  std::vector<bool> is_considered_;  // by storage
  LmsPlan plan_;
};

}  // namespace

Result<LmsPlan> choose_swaps(const Graph& graph, const LmsOptions& options,
                             const TrySwap& try_swap) {
  if (auto status = check_lms_options(graph, options); !status) return fail(status.error());
  return Driver(graph, options, try_swap).run();
}

}  // namespace ebb
