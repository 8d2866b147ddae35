#include "tests/meaning/random_decisions.h"

#include <algorithm>
#include <vector>

#include "ebb/graph/convolution_backward.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {

Decision RandomDecisions::any(const Graph& graph) {
  if (graph.tensor_count() == 0 || below(5) == 0) return DelayDecision{node(graph), node(graph)};
  if (below(16) == 0) {
    if (const NodeId call = somebody_to_split(graph); call.valid()) return SplitDecision{call};
  }
  const TensorId tensor(static_cast<std::uint32_t>(below(graph.tensor_count())));
  std::vector<ReaderGroup> groups(1 + below(2));
  for (const NodeId reader : graph.nodes()) {
    const auto operands = graph.operands(reader);
    const bool reads = std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return operand.tensor.valid() && graph.storage(operand.tensor) == graph.storage(tensor);
    });
    if (reads && below(3) != 0) groups[below(groups.size())].readers.push_back(reader);
  }
  std::erase_if(groups, [](const ReaderGroup& group) { return group.readers.empty(); });
  for (ReaderGroup& group : groups) group.trigger = somebody_before(graph, group.readers[0]);
  if (below(2) == 0) return RecomputeDecision{tensor, groups};
  return SwapDecision{tensor, groups, {}};
}

NodeId RandomDecisions::node(const Graph& graph) {
  return NodeId(static_cast<std::uint32_t>(below(graph.node_count())));
}

// If there is one: all that have a chance are of one operator.
NodeId RandomDecisions::somebody_to_split(const Graph& graph) {
  std::vector<NodeId> calls;
  for (const NodeId each : graph.nodes()) {
    if (graph.op(each) == kConvolutionBackward) calls.push_back(each);
  }
  return calls.empty() ? NodeId() : calls[below(calls.size())];
}

NodeId RandomDecisions::somebody_before(const Graph& graph, NodeId at) {
  for (std::size_t steps = 1 + below(4); steps > 0; --steps) {
    std::vector<NodeId> before(graph.controls(at).begin(), graph.controls(at).end());
    for (const Operand& operand : graph.operands(at)) {
      if (operand.tensor.valid()) before.push_back(graph.producer(operand.tensor));
    }
    if (before.empty()) break;
    at = before[below(before.size())];
  }
  return at;
}

Graph rewritten_at_random(Graph graph, std::uint64_t seed, int decisions) {
  Rewriter rewriter(graph, {.verify_each = false});
  RandomDecisions random(seed);
  for (int i = 0; i < decisions; ++i) {
    const bool applied = rewriter.apply(random.any(graph)).has_value();
    static_cast<void>(applied);  // refused or not
  }
  rewriter.settle();
  return graph;
}

}  // namespace ebb
