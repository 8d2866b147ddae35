#include "ebb/order/gamma.h"

#include <algorithm>

namespace ebb {

Gamma::Gamma(const Graph& graph) : levels_(graph.node_count()) {
  for (const NodeId node : graph.order()) {
    if (!graph.is_op(node)) continue;
    std::uint32_t latest = 0;
    const auto wait_for = [&](NodeId other) { latest = std::max(latest, levels_[other.index()]); };
    for (const Operand& operand : graph.operands(node)) {
      if (operand.tensor.valid() && !graph.is_variable(operand.tensor)) {
        wait_for(graph.producer(operand.tensor));
      }
    }
    graph.for_each_scalar_read(node, [&](ScalarId scalar) { wait_for(graph.producer(scalar)); });
    for (const NodeId control : graph.controls(node)) wait_for(control);
    levels_[node.index()] = latest + 1;
    highest_ = std::max(highest_, latest + 1);
  }
}

std::vector<std::uint32_t> lifetimes(const Graph& graph, const Gamma& gamma) {
  std::vector<std::uint32_t> lifetime(graph.tensor_count());
  for (const NodeId node : graph.nodes()) {
    for (const Operand& operand : graph.operands(node)) {
      if (!operand.tensor.valid()) continue;
      // A reader of a later version of a variable may have a smaller γ than its updater.
      const std::uint32_t made = gamma[graph.producer(operand.tensor)];
      if (gamma[node] <= made) continue;
      std::uint32_t& longest = lifetime[operand.tensor.index()];
      longest = std::max(longest, gamma[node] - made);
    }
  }
  return lifetime;
}

}  // namespace ebb
