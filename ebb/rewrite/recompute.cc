#include "ebb/rewrite/recompute.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/rewrite/readers.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {
namespace {

// The operand whose next version this result of the maker is; null when it is none.
const Operand* updated_by(const Graph& graph, NodeId maker, TensorId result) {
  for (const Operand& operand : graph.operands(maker)) {
    if (operand.access == Access::kUpdate &&
        graph.storage(operand.tensor) == graph.storage(result) &&
        graph.offset(operand.tensor) == graph.offset(result)) {
      return &operand;
    }
  }
  return nullptr;
}

Objection objection_to_maker(const Rewriter& rewriter, TensorId source) {
  const Graph& graph = rewriter.graph();
  const NodeId maker = graph.producer(source);
  if (!graph.is_op(maker)) return Reason{"R05", "it is given from outside, not computed"};
  if (is_copy(graph.op(maker))) {
    return Reason{"R04", fmt::format("'{}' copies it and computes nothing", graph.name(maker))};
  }
  if (const NodeId original = graph.clone_of(maker); original.valid()) {
    return Reason{
        "R04",
        fmt::format("'{}' computes '{}' again already; give its readers a group of their own there",
                    graph.name(maker), graph.name(original))};
  }
  if (graph.root(graph.storage(source)) != source) {
    return Reason{"R05",
                  fmt::format("'{}' updates an operand, which happens once", graph.name(maker))};
  }
  const auto results = graph.results(maker);
  const auto view = std::find_if(results.begin(), results.end(), [&](TensorId result) {
    return graph.root(graph.storage(result)) != result && !updated_by(graph, maker, result);
  });
  if (view != results.end()) {
    return Reason{
        "R05", fmt::format("'{}' also makes the view %{}", graph.name(maker), graph.name(*view))};
  }
  return objection_to_clone(rewriter, maker);
}

// Whether the operand is overwritten above the first reader, so that a clone there needs a copy.
bool needs_snapshot(const Rewriter& rewriter, TensorId operand, NodeId first_reader) {
  const NodeId updater = rewriter.updater(operand);
  return updater.valid() && rewriter.lines().is_before(updater, first_reader);
}

// Whether the maker reads bytes of the storage that it updates by this operand.
bool reads_besides(const Graph& graph, NodeId maker, const Operand& updated) {
  const auto operands = graph.operands(maker);
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    return operand.tensor.valid() && operand.access == Access::kRead &&
           graph.storage(operand.tensor) == graph.storage(updated.tensor);
  });
}

Objection objection_to_operands(const Rewriter& rewriter, NodeId maker, NodeId first_reader) {
  const Graph& graph = rewriter.graph();
  for (const Operand& operand : graph.operands(maker)) {
    if (!operand.tensor.valid() || !needs_snapshot(rewriter, operand.tensor, first_reader)) {
      continue;
    }
    if (operand.access == Access::kUpdate && reads_besides(graph, maker, operand)) {
      return Reason{"R03", fmt::format("'{}' also reads bytes of %{}, which it updates",
                                       graph.name(maker), graph.name(operand.tensor))};
    }
    const TensorType& type = graph.type(operand.tensor);
    const bool has_size = element_size(type.dtype) != 0;
    if (has_size && (operand.access == Access::kRead || !may_have_gaps(type))) continue;
    return Reason{
        "R03", fmt::format("'{}' updates %{} before, of which no copy can be taken: {}",
                           graph.name(rewriter.updater(operand.tensor)), graph.name(operand.tensor),
                           has_size ? "it may have gaps between its elements"
                                    : fmt::format("{} has no fixed size", name(type.dtype)))};
  }
  return std::nullopt;
}

// At most; some snapshots may be there already.
void add_clone(const Rewriter& rewriter, NodeId maker, NodeId first_reader, Totals& growth) {
  const Graph& graph = rewriter.graph();
  growth.add_costs(graph, maker);
  for (const TensorId result : graph.results(maker)) growth.add(graph.type(result));
  for (const Operand& operand : graph.operands(maker)) {
    if (operand.tensor.valid() && needs_snapshot(rewriter, operand.tensor, first_reader)) {
      growth.add(graph.type(operand.tensor));
    }
  }
}

TensorId make_snapshot(Rewriter& rewriter, TensorId tensor) {
  const Graph& graph = rewriter.graph();
  const NodeId updater = rewriter.updater(tensor);
  const Operand operand{.tensor = tensor};
  const NodeId node =
      rewriter.add_op(kSnapshot, {&operand, 1}, Rewriter::Place::right_above(updater));
  rewriter.set_place_of_execution(node, graph.producer(tensor),
                                  graph.scope(graph.producer(tensor)));
  const TensorId copy = rewriter.add_result(node, tensor, ".kept", graph.type(tensor));
  // The update waited for the maker of the tensor already.
  rewriter.note_wait(updater, node, false);
  return copy;
}

TensorId find_or_make_snapshot(Rewriter& rewriter, TensorId tensor) {
  if (const TensorId known = rewriter.find_copy(tensor, kSnapshot); known.valid()) return known;
  const TensorId copy = make_snapshot(rewriter, tensor);
  rewriter.note_copy(tensor, kSnapshot, copy);
  return copy;
}

void compute_again(Rewriter& rewriter, TensorId source, const ReaderGroup& group) {
  const Graph& graph = rewriter.graph();
  const NodeId maker = graph.producer(source);
  const NodeId first = first_reader(rewriter, group);
  std::vector<Operand> operands(graph.operands(maker).begin(), graph.operands(maker).end());
  std::vector<NodeId> updaters;  // they wait for the clone to have read
  for (Operand& operand : operands) {
    if (!operand.tensor.valid()) continue;
    if (operand.access == Access::kUpdate) {
      operand.tensor = make_snapshot(rewriter, operand.tensor);  // which nobody else reads
    } else if (needs_snapshot(rewriter, operand.tensor, first)) {
      operand.tensor = find_or_make_snapshot(rewriter, operand.tensor);
    } else if (const NodeId updater = rewriter.updater(operand.tensor); updater.valid()) {
      updaters.push_back(updater);
    }
  }
  const NodeId clone = rewriter.add_clone(maker, operands, Rewriter::Place::right_above(first));
  rewriter.set_scope(clone, scope_of_copy(rewriter, source, group));
  // The original waits for who reads what it overwrites, and so must its clone.
  if (graph.updates_something(maker)) rewriter.add_control(clone, maker);
  rewriter.add_control(clone, group.trigger);
  for (const NodeId updater : updaters) {
    rewriter.note_wait(updater, clone,
                       updater != group.trigger && !rewriter.waits(updater, group.trigger));
  }
  TensorId again;
  for (const TensorId result : graph.results(maker)) {
    if (const Operand* updated = updated_by(graph, maker, result)) {
      const auto index = static_cast<std::size_t>(updated - graph.operands(maker).data());
      rewriter.add_shared_result(clone, result, ".again", operands[index].tensor, Bytes{});
      continue;
    }
    const TensorId made = rewriter.add_result(clone, result, ".again", graph.type(result));
    if (result == source) again = made;
  }
  move_readers(rewriter, source, again, group, ".again");
}

}  // namespace

Status Recompute::check(const Rewriter& rewriter, const RecomputeDecision& decision) {
  const auto refuse = [&](const Reason& reason) {
    return fail(refused(kName, fmt::format("%{}", rewriter.graph().name(decision.tensor)), reason));
  };
  const auto source = find_source(rewriter, decision.tensor);
  if (!source) return refuse(source.error());
  if (const auto why = objection_to_maker(rewriter, *source)) return refuse(*why);
  Totals growth;
  if (const auto why = find_objection(rewriter, *source, decision.groups, growth)) {
    return refuse(*why);
  }
  const NodeId maker = rewriter.graph().producer(*source);
  for (const ReaderGroup& group : decision.groups) {
    const NodeId first = first_reader(rewriter, group);
    if (const auto why = objection_to_operands(rewriter, maker, first)) return refuse(*why);
    add_clone(rewriter, maker, first, growth);
  }
  if (const auto why = objection_to_growth(rewriter, growth)) return refuse(*why);
  return {};
}

void Recompute::apply(Rewriter& rewriter, const RecomputeDecision& decision) {
  const TensorId source = *find_source(rewriter, decision.tensor);
  for (const ReaderGroup& group : decision.groups) compute_again(rewriter, source, group);
}

}  // namespace ebb
