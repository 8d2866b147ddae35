#include "ebb/plan/infeasible.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/graph/edit.h"
#include "ebb/graph/text_names.h"
#include "ebb/order/in_place.h"
#include "ebb/order/liveness.h"

namespace ebb {
namespace {

class PeakExplainer {
 public:
  PeakExplainer(const Plan& plan, const StepModel& model, const Refusals& refusals,
                const PlanOptions& options)
      : plan_(plan), model_(model), refusals_(refusals), options_(options) {}

  [[nodiscard]] Infeasible run() const {
    const Graph graph = with_workspaces(plan_.graph, plan_.costs);
    const std::vector<Life> lives = find_lives(graph);
    const ArenaNeeds needs = needs_of(graph, plan_.costs.workspace);
    const std::vector<StorageId> takes_over =
        find_takeovers(graph, lives, needs.storages, needs.can_be_placed);
    const std::uint32_t position = find_peak_line(graph, lives, takes_over);
    const NodeId node = graph.order()[position];
    std::vector<bool> is_taken(graph.storage_count());  // at that line
    for (const TensorId result : graph.results(node)) {
      const StorageId taken = takes_over[graph.storage(result).index()];
      if (taken.valid()) is_taken[taken.index()] = true;
    }
    Infeasible out;
    out.least = plan_.arena.size;
    out.operation = graph.name(node);
    Bytes state;  // that this operation does not touch
    for (const Resident& it : residents_at(graph, lives, position)) {
      if (it.size.count == 0 || is_taken[it.storage.index()]) continue;
      const NodeKind origin = graph.origin(it.storage);
      const bool is_state = origin == NodeKind::kParam || origin == NodeKind::kConst ||
                            graph.type(graph.root(it.storage)).dtype == DType::kResource;
      if (is_state && !touches(graph, node, it.storage)) {
        state += it.size;
        continue;
      }
      out.residents.push_back(
          {.what = fmt::format("%{}", spelled(graph.name(graph.root(it.storage)))),
           .size = it.size,
           .why = why_there(graph, it.storage, node)});
    }
    if (state.count > 0) {
      out.residents.push_back(
          {.what = "parameters, optimizer state and constants", .size = state, .why = "they stay"});
    }
    if (const Bytes workspace = plan_.costs.workspace[node.index()]; workspace.count > 0) {
      out.residents.push_back({.what = fmt::format("the workspace of '{}'", graph.name(node)),
                               .size = workspace,
                               .why = "it needs it"});
    }
    std::stable_sort(out.residents.begin(), out.residents.end(),
                     [](const auto& a, const auto& b) { return a.size > b.size; });
    return out;
  }

 private:
  // Where most is held, with results in the place of operands counted once.
  static std::uint32_t find_peak_line(const Graph& graph, const std::vector<Life>& lives,
                                      const std::vector<StorageId>& takes_over) {
    const MemoryCurve curve = memory_curve(graph, lives);
    Bytes peak;
    std::uint32_t line = 0;
    for (std::uint32_t i = 0; i < curve.device.size(); ++i) {
      Bytes held = curve.device[i];
      const NodeId node = graph.order()[i];
      for (const TensorId result : graph.results(node)) {
        const StorageId storage = graph.storage(result);
        if (graph.root(storage) != result || !takes_over[storage.index()].valid()) continue;
        held -= graph.size(storage).value_or(Bytes{});
      }
      if (held <= peak) continue;
      peak = held;
      line = i;
    }
    return line;
  }

  static bool touches(const Graph& graph, NodeId node, StorageId storage) {
    const auto operands = graph.operands(node);
    const auto results = graph.results(node);
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Operand& operand) {
                         return operand.tensor.valid() && graph.storage(operand.tensor) == storage;
                       }) ||
           std::any_of(results.begin(), results.end(),
                       [&](TensorId result) { return graph.storage(result) == storage; });
  }

  [[nodiscard]] std::string why_there(const Graph& graph, StorageId storage, NodeId node) const {
    const auto outputs = graph.outputs();
    if (touches(graph, node, storage)) {
      const bool is_made = graph.producer(graph.root(storage)) == node;
      return fmt::format("'{}' {} it", graph.name(node), is_made ? "makes" : "reads");
    }
    if (std::any_of(outputs.begin(), outputs.end(),
                    [&](TensorId output) { return graph.storage(output) == storage; })) {
      return "the step returns it";
    }
    return why_kept(storage);
  }

  // Of a storage that the original has as well, or that was added.
  [[nodiscard]] std::string why_kept(StorageId storage) const {
    const auto value =
        std::find_if(model_.values.begin(), model_.values.end(),
                     [&](const StepModel::Value& it) { return it.storage == storage; });
    if (value == model_.values.end()) return "it is there for what comes next";
    if (plan_.graph.residence(storage) == Residence::kHost) {
      return "it comes from the host, and TensorFlow keeps it until its last reader";
    }
    const auto index = static_cast<std::size_t>(value - model_.values.begin());
    if (value->can_swap && options_.host_budget) return "the host may have no room for it";
    if (value->can_swap || value->can_recompute) return "to let it go would not help here";
    if (value->size < options_.min_bytes) return "it is smaller than --min-bytes";
    if (!refusals_.swap[index].empty()) return refusals_.swap[index];
    if (!refusals_.recompute[index].empty()) return refusals_.recompute[index];
    if (!options_.may_swap) return "swapping is forbidden, and it cannot be computed again";
    if (!options_.may_recompute) return "computing again is forbidden, and it cannot be swapped";
    return "it is updated in place, or is the value of a variable";
  }

  const Plan& plan_;
  const StepModel& model_;
  const Refusals& refusals_;
  const PlanOptions& options_;
};

}  // namespace

Graph with_workspaces(Graph graph, const StepCosts& costs) {
  GraphEdit edit(graph);
  for (const NodeId node : graph.nodes()) edit.set_workspace(node, costs.workspace[node.index()]);
  return graph;
}

Infeasible explain_peak(const Plan& least, const StepModel& model, const Refusals& refusals,
                        const PlanOptions& options) {
  return PeakExplainer(least, model, refusals, options).run();
}

}  // namespace ebb
