#include "ebb/plan/step_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/graph/dependence.h"
#include "ebb/graph/dtype.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/repeatable.h"
#include "ebb/graph/views.h"
#include "ebb/order/arrivals.h"
#include "ebb/order/elementwise.h"
#include "ebb/order/in_place.h"
#include "ebb/order/variables.h"

namespace ebb {
namespace {

class Modeller {
 public:
  Modeller(const Graph& graph, const StepCosts& costs, const StepModelOptions& options)
      : graph_(graph),
        costs_(costs),
        options_(options),
        value_of_(graph.storage_count(), kNone),
        operation_of_(graph.node_count(), kNone),
        last_user_(graph.storage_count(), kNone) {}

  Result<StepModel> run() {
    if (auto status = add_values(); !status) return fail(status.error());
    for (const NodeId node : graph_.order()) {
      if (graph_.is_op(node) && !makes_only_views(graph_, node) && uses_device(node)) {
        add_operation(node);
      }
    }
    find_waits();
    add_uses();
    for (StepModel::Value& value : model_.values) find_what_may_be_done(value);
    return std::move(model_);
  }

 private:
  Status add_values() {
    std::vector<bool> is_returned(graph_.storage_count());
    for (const TensorId output : graph_.outputs()) {
      is_returned[graph_.storage(output).index()] = true;
    }
    for (const StorageId storage : graph_.storages()) {
      if (graph_.residence(storage) == Residence::kHost) continue;
      const TensorId root = graph_.root(storage);
      const auto size = variables_.held(graph_, storage);
      if (!size && element_size(graph_.type(root).dtype) != 0) {
        return fail(ErrorKind::kBadInput,
                    fmt::format("the size of %{} is not known, and a plan is made of sizes; give "
                                "every dimension a number",
                                printable(graph_.name(root))));
      }
      const NodeKind origin = graph_.origin(storage);
      const bool is_state = origin == NodeKind::kParam || origin == NodeKind::kConst;
      value_of_[storage.index()] = static_cast<std::uint32_t>(model_.values.size());
      model_.values.push_back({.storage = storage,
                               .tensor = root,
                               .size = aligned(size.value_or(Bytes{})),
                               .stays = is_state || is_returned[storage.index()]});
    }
    for (const Variable& variable : variables_.on_device) {
      model_.values.push_back({.storage = variable.handle,
                               .tensor = graph_.root(variable.handle),
                               .size = aligned(variable.size),
                               .stays = true});
    }
    for (const Arrival& arrival : find_arrivals(graph_)) {
      value_of_[arrival.storage.index()] = static_cast<std::uint32_t>(model_.values.size());
      model_.values.push_back({.storage = arrival.storage,
                               .tensor = graph_.root(arrival.storage),
                               .size = aligned(arrival.size)});
    }
    return {};
  }

  // On the device; kNone: it reads nothing there.
  [[nodiscard]] std::uint32_t value_read(NodeId node, TensorId tensor) const {
    if (!tensor.valid()) return kNone;
    const StorageId storage = graph_.storage(tensor);
    if (graph_.residence(storage) == Residence::kHost && !reads_arrival(graph_, node, tensor)) {
      return kNone;
    }
    return value_of_[storage.index()];
  }

  // The host reads the value of a tensor now and then.
  [[nodiscard]] bool uses_device(NodeId node) const {
    const auto operands = graph_.operands(node);
    return !graph_.runs_on_host(node) ||
           std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
             return value_read(node, operand.tensor) != kNone;
           });
  }

  void add_operation(NodeId node) {
    const auto index = static_cast<std::uint32_t>(model_.operations.size());
    operation_of_[node.index()] = index;
    StepModel::Operation operation{.node = node,
                                   .takes = costs_.compute[node.index()],
                                   .workspace = costs_.workspace[node.index()],
                                   .first_operand = size_of(model_.operands),
                                   .first_result = size_of(model_.results)};
    for (const TensorId result : graph_.results(node)) {
      const std::uint32_t value = value_of_[graph_.storage(result).index()];
      if (value == kNone || model_.values[value].producer != kNone) continue;
      if (graph_.producer(graph_.root(graph_.storage(result))) != node) continue;
      model_.values[value].producer = index;
      last_user_[graph_.storage(result).index()] = index;
      model_.results.push_back(value);
    }
    operation.result_count = size_of(model_.results) - operation.first_result;
    for (const Operand& operand : graph_.operands(node)) {
      const std::uint32_t value = value_read(node, operand.tensor);
      if (value == kNone) continue;
      const StorageId storage = graph_.storage(operand.tensor);
      if (last_user_[storage.index()] == index) continue;
      last_user_[storage.index()] = index;
      model_.operands.push_back(value);
    }
    operation.operand_count = size_of(model_.operands) - operation.first_operand;
    add_takeovers(node, operation);
    for (const Operand& operand : graph_.operands(node)) {
      if (operand.access != Access::kUpdate) continue;
      const Bytes size = extent(graph_.type(operand.tensor)).value_or(Bytes{});
      operation.updated += aligned(size);
      operation.keeping += snapshot_time(costs_, size);
    }
    model_.operations.push_back(operation);
  }

  void add_takeovers(NodeId node, StepModel::Operation& operation) {
    operation.first_takeover = static_cast<std::uint32_t>(model_.takeovers.size());
    const auto results = graph_.results(node);
    const auto operands = graph_.operands(node);
    if (options_.reuse_in_place && may_take_over(graph_.op(node)) != TakeOver::kNever) {
      for (std::uint32_t result = 0; result < results.size(); ++result) {
        for (std::uint32_t operand = 0; operand < operands.size(); ++operand) {
          if (!could_take_over(graph_, node, result, operand)) continue;
          const StepModel::TakeOver found{
              .result = value_of_[graph_.storage(results[result]).index()],
              .operand = value_of_[graph_.storage(operands[operand].tensor).index()]};
          // What the host computes has no values here.
          if (found.result != kNone && found.operand != kNone) model_.takeovers.push_back(found);
        }
      }
    }
    operation.takeover_count =
        static_cast<std::uint32_t>(model_.takeovers.size()) - operation.first_takeover;
  }

  [[nodiscard]] Bytes aligned(Bytes bytes) const {
    const std::int64_t mask = options_.alignment.count - 1;
    return Bytes{(bytes.count + mask) & ~mask};
  }

  // The last operation that each one waits for, through lines that run no code.
  void find_waits() {
    const Dependence dependence(graph_);
    std::vector<std::uint32_t> latest(graph_.node_count(), kNone);  // for those lines
    const auto later = [](std::uint32_t a, std::uint32_t b) {
      return a == kNone ? b : (b == kNone ? a : std::max(a, b));
    };
    for (const NodeId node : graph_.order()) {
      std::uint32_t found = kNone;
      for (const Dependence::Edge& edge : dependence.before(node)) {
        const std::uint32_t before = operation_of_[edge.node.index()];
        found = later(found, before != kNone ? before : latest[edge.node.index()]);
      }
      latest[node.index()] = found;
      if (const std::uint32_t operation = operation_of_[node.index()]; operation != kNone) {
        model_.operations[operation].waits_for = found;
      }
    }
  }

  void add_uses() {
    std::vector<std::uint32_t> counts(model_.values.size());
    for (const std::uint32_t value : model_.operands) ++counts[value];
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      model_.values[i].first_use = next;
      next += counts[i];
    }
    model_.uses.resize(next);
    for (std::uint32_t i = 0; i < model_.operations.size(); ++i) {
      for (const std::uint32_t value : model_.operands_of(i)) {
        StepModel::Value& it = model_.values[value];
        model_.uses[it.first_use + it.use_count++] = i;
      }
    }
  }

  // What the rules would say to any reader; to one of them they may still say no.
  void find_what_may_be_done(StepModel::Value& value) const {
    const bool is_updated = updates_.is_updated(value.storage);
    const NodeId maker = graph_.producer(value.tensor);
    if (value.stays || is_updated || value.size < options_.min_bytes) return;
    if (graph_.residence(value.storage) == Residence::kHost) return;  // it has arrived
    if (value.use_count == 0 || element_size(graph_.type(value.tensor).dtype) == 0) return;
    if (reads_whole_variable(graph_, maker) || is_copy(graph_.op(maker))) return;
    value.can_swap = options_.may_swap;
    if (!options_.may_recompute || value.producer == kNone) return;
    const auto results = graph_.results(maker);
    value.can_recompute = graph_.effect(maker) == Effect::kPure &&
                          !find_handle(graph_, maker).valid() &&
                          !steers_control_flow(graph_, maker) && !graph_.clone_of(maker).valid() &&
                          std::all_of(results.begin(), results.end(), [&](TensorId result) {
                            const StorageId storage = graph_.storage(result);
                            return graph_.root(storage) == result || updates_.is_updated(storage);
                          });
  }

  static std::uint32_t size_of(const std::vector<std::uint32_t>& list) {
    return static_cast<std::uint32_t>(list.size());
  }

  const Graph& graph_;
  const StepCosts& costs_;
  const StepModelOptions& options_;
  Updates updates_{graph_};
  Variables variables_ = find_variables(graph_);
  std::vector<std::uint32_t> value_of_;      // by storage
  std::vector<std::uint32_t> operation_of_;  // by node
  std::vector<std::uint32_t> last_user_;     // by storage: the operation that has counted it
  StepModel model_;
};

}  // namespace

Result<StepModel> model_step(const Graph& graph, const StepCosts& costs,
                             const StepModelOptions& options) {
  return Modeller(graph, costs, options).run();
}

}  // namespace ebb
