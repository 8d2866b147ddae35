#include "ebb/rewrite/proof_splits.h"

#include <algorithm>
#include <string>

#include "ebb/graph/convolution_backward.h"
#include "ebb/graph/edit.h"

namespace ebb {
namespace {

// Clones are those of one call.
std::vector<bool> find_cloned(const Graph& graph) {
  std::vector<bool> cloned(graph.node_count());
  for (const NodeId node : graph.nodes()) {
    if (const NodeId original = graph.clone_of(node); original.valid()) {
      cloned[original.index()] = true;
      cloned[node.index()] = true;
    }
  }
  return cloned;
}

bool may_be_two(const Graph& graph, NodeId call) {
  const auto mask = gradient_mask(graph, call);
  if (!mask || !mask->front() || graph.results(call).size() < 2) return false;
  if (graph.effect(call) != Effect::kPure) return false;
  const TensorId input = graph.operands(call)[kConvolutionInput].tensor;
  return input.valid() && graph.type(input) == graph.type(graph.results(call)[0]);
}

std::vector<Value> as_values(const GradientMask& mask) { return {mask.begin(), mask.end()}; }

// The new call, which makes all but the first result.
NodeId split(Graph& graph, NodeId call) {
  GraphEdit edit(graph);
  const GradientMask mask = gradient_mask(graph, call).value_or(GradientMask{});
  const std::vector operands(graph.operands(call).begin(), graph.operands(call).end());
  const std::vector attributes(graph.attributes(call).begin(), graph.attributes(call).end());
  const std::vector controls(graph.controls(call).begin(), graph.controls(call).end());
  const NodeId others = edit.add_node(NodeKind::kOp, std::string(graph.op(call)));
  edit.set_operands(others, operands);
  for (const Attribute& each : attributes) {
    const std::vector items(graph.items(each).begin(), graph.items(each).end());
    edit.add_attribute(others, each.key, each.is_list, items);
  }
  edit.set_controls(others, controls);
  edit.set_device(others, std::string(graph.device(call)));
  edit.set_scope(others, graph.scope(call));
  edit.set_workspace(others, graph.workspace(call));
  if (const auto takes = graph.takes(call)) {
    edit.set_takes(others, *takes - *takes / 2);
    edit.set_takes(call, *takes / 2);
  }
  edit.hand_over_results(call, 1, others);
  edit.set_attribute(others, kOutputMask, as_values({false, mask[1], mask[2]}));
  edit.set_attribute(call, kOutputMask, as_values({true, false, false}));
  edit.set_operand(call, kConvolutionInput, TensorId());
  edit.add_control(call, others);
  return others;
}

}  // namespace

std::vector<NodeId> find_split_calls(const Graph& original, const Graph& rewritten) {
  std::vector<NodeId> calls;
  for (const NodeId node : original.order()) {
    if (!may_be_two(original, node)) continue;
    if (rewritten.find_node(original.name(original.results(node)[1])).valid()) {
      calls.push_back(node);
    }
  }
  if (calls.empty()) return calls;
  const std::vector<bool> cloned = find_cloned(original);
  std::erase_if(calls, [&](NodeId call) { return cloned[call.index()]; });
  return calls;
}

Graph with_split_calls(Graph original, std::span<const NodeId> calls) {
  std::vector<NodeId> order;
  std::vector<NodeId> above(original.node_count());  // by node: the call that goes right above it
  const std::vector before(original.order().begin(), original.order().end());
  for (const NodeId call : calls) above[call.index()] = split(original, call);
  for (const NodeId node : before) {
    if (above[node.index()].valid()) order.push_back(above[node.index()]);
    order.push_back(node);
  }
  GraphEdit(original).set_order(std::move(order));
  return original;
}

}  // namespace ebb
