#include "ebb/graph/references.h"

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/graph/dependence.h"

namespace ebb {

void References::note(NodeId user, Kind kind, std::string_view name, const char* at,
                      const TextCursor& cursor) {
  if (!cursor.is_in_text(name)) name = unescaped_.emplace_back(name);
  uses_.push_back({user, kind, name, at});
}

bool References::settle(TextCursor& cursor, const Graph& graph,
                        const std::vector<int>& lines) const {
  if (uses_.empty()) return true;
  std::vector<std::vector<NodeId>> before(graph.node_count());
  for (const Use& use : uses_) {
    const NodeId producer = find_producer(graph, use);
    if (!producer.valid()) return cursor.error_at(use.at, "P24", why_unknown(graph, use));
    if (use.user.valid()) before[use.user.index()].push_back(producer);
  }
  const Dependence dependence(graph);
  for (const NodeId node : graph.nodes()) {
    for (const auto& edge : dependence.before(node)) before[node.index()].push_back(edge.node);
  }
  const Use& first = uses_.front();
  if (const auto cycle = find_cycle(before); !cycle.empty()) {
    return cursor.error_at(first.at, "P22",
                           fmt::format("the graph has a cycle: {}; no order of lines can run it",
                                       describe_cycle(graph, cycle)));
  }
  return cursor.error_at(
      first.at, "P23",
      fmt::format("'{}' is made on line {}, below this one; lines stand in the order in which they "
                  "run, so move that line up",
                  first.name, lines[find_producer(graph, first).index()]));
}

NodeId References::find_producer(const Graph& graph, const Use& use) {
  switch (use.kind) {
    case Kind::kTensor: {
      const TensorId tensor = graph.find_tensor(use.name);
      return tensor.valid() ? graph.producer(tensor) : NodeId();
    }
    case Kind::kScalar: {
      const ScalarId scalar = graph.find_scalar(use.name);
      return scalar.valid() ? graph.producer(scalar) : NodeId();
    }
    case Kind::kNode:
      return graph.find_node(use.name);
  }
  return {};
}

std::string References::why_unknown(const Graph& graph, const Use& use) {
  if (graph.find_scalar(use.name).valid()) {
    return fmt::format("'{}' is a scalar, not a tensor", use.name);
  }
  if (const TensorId tensor = graph.find_tensor(use.name); tensor.valid()) {
    if (use.kind == Kind::kScalar) return fmt::format("'{}' is a tensor, not a scalar", use.name);
    return fmt::format("'{}' is a further result; its node is named '{}'", use.name,
                       graph.name(graph.producer(tensor)));
  }
  if (graph.find_node(use.name).valid()) {
    return fmt::format("'{}' is an operation without results", use.name);
  }
  NearestWord nearest(use.name);
  const char* what = "tensor";
  if (use.kind == Kind::kScalar) {
    what = "scalar";
    for (const ScalarId scalar : graph.scalars()) nearest.offer(graph.name(scalar));
  } else if (use.kind == Kind::kNode) {
    what = "node";
    for (const NodeId node : graph.nodes()) nearest.offer(graph.name(node));
  } else {
    for (const TensorId tensor : graph.tensors()) nearest.offer(graph.name(tensor));
  }
  return fmt::format("there is no {} '{}' in this graph{}", what, use.name, nearest.hint());
}

}  // namespace ebb
