#include "ebb/graph/versions.h"

namespace ebb {

std::vector<std::uint32_t> derive_versions(const Graph& graph) {
  struct Made {
    NodeId node;
    std::uint32_t version = 0;
  };
  std::vector<std::uint32_t> versions(graph.tensor_count());
  std::vector<Made> made(graph.storage_count());  // what the node at hand makes of each storage
  for (const NodeId node : graph.order()) {
    for (const Operand& operand : graph.operands(node)) {
      if (!operand.tensor.valid()) continue;
      Made& here = made[graph.storage(operand.tensor).index()];
      const std::uint32_t version = versions[operand.tensor.index()];
      if (operand.access == Access::kUpdate) {
        here = {node, version + 1};
      } else if (here.node != node) {
        here = {node, version};
      }
    }
    for (const TensorId result : graph.results(node)) {
      const Made& here = made[graph.storage(result).index()];
      if (here.node == node) versions[result.index()] = here.version;
    }
  }
  return versions;
}

}  // namespace ebb
