#include "ebb/rewrite/lms_walk.h"

#include <algorithm>
#include <string>

#include "ebb/order/variables.h"
#include "ebb/rewrite/lms_names.h"

namespace ebb {
namespace {

bool is_handle(const Graph& graph, TensorId tensor) {
  const DType dtype = graph.type(tensor).dtype;
  return dtype == DType::kResource || dtype == DType::kVariant;
}

// Whether it takes what some operation computed.
bool reads_op(const Graph& graph, NodeId node, bool handles_count) {
  const auto operands = graph.operands(node);
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    return operand.tensor.valid() && graph.is_op(graph.producer(operand.tensor)) &&
           (handles_count || !is_handle(graph, operand.tensor));
  });
}

// Whether it makes tensors out of the world, and neither out of other tensors nor out of a
// variable.
bool brings_data_in(const Graph& graph, NodeId node) {
  if (graph.effect(node) != Effect::kEffect || reads_whole_variable(graph, node)) return false;
  const auto results = graph.results(node);
  return !reads_op(graph, node, false) &&
         std::any_of(results.begin(), results.end(),
                     [&](TensorId result) { return !is_handle(graph, result); });
}

std::vector<NodeId> named_starts(const Graph& graph, const LmsOptions& options) {
  std::vector<bool> is_named(graph.node_count());
  for (const std::string& name : options.starting_op_names) {
    is_named[graph.find_node(name).index()] = true;
  }
  std::vector<NodeId> starts;
  for (const NodeId node : graph.order()) {
    if (graph.kind(node) != NodeKind::kInput && !graph.is_op(node)) continue;
    if (is_named[node.index()] || in_scope(graph.name(node), options.starting_scope)) {
      starts.push_back(node);
    }
  }
  return starts;
}

std::vector<NodeId> usual_starts(const Graph& graph) {
  std::vector<NodeId> starts;
  bool has_input = false;
  for (const NodeId node : graph.order()) {
    const bool is_input = graph.kind(node) == NodeKind::kInput;
    has_input = has_input || is_input;
    if (is_input || brings_data_in(graph, node)) starts.push_back(node);
  }
  if (has_input) return starts;
  starts.clear();
  for (const NodeId node : graph.order()) {
    if (!reads_op(graph, node, true)) starts.push_back(node);
  }
  return starts;
}

}  // namespace

std::vector<NodeId> walk_order(const Graph& graph, const LmsOptions& options,
                               const LmsEdges& edges) {
  const bool anywhere = options.starting_scope.empty() && options.starting_op_names.empty();
  std::vector<NodeId> queue = anywhere ? usual_starts(graph) : named_starts(graph, options);
  std::vector<bool> is_queued(graph.node_count());
  for (const NodeId node : queue) is_queued[node.index()] = true;
  std::vector<NodeId> successors;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    edges.find_successors(queue[head], successors);
    for (const NodeId next : successors) {
      if (is_queued[next.index()]) continue;
      is_queued[next.index()] = true;
      queue.push_back(next);
    }
  }
  return queue;
}

}  // namespace ebb
