#include "ebb/order/variables.h"

#include <algorithm>

#include "ebb/graph/repeatable.h"

namespace ebb {
namespace {

bool is_handle(const Graph& graph, TensorId tensor) {
  return graph.type(tensor).dtype == DType::kResource;
}

// The largest of what stands beside the handles: the gradient of `ResourceApplyAdam(var, m, v,
// ...)` is as large as each of them, the value of `AssignVariableOp(handle, value)` as its
// variable. Not valid where nothing stands there.
TensorId largest_beside(const Graph& graph, NodeId node) {
  TensorId largest;
  Bytes most;
  for (const Operand& operand : graph.operands(node)) {
    if (!operand.tensor.valid() || is_handle(graph, operand.tensor)) continue;
    const Bytes size = extent(graph.type(operand.tensor)).value_or(Bytes{});
    if (size <= most) continue;
    most = size;
    largest = operand.tensor;
  }
  return largest;
}

// Operators that write or read all elements of each variable among their operands.
bool is_of_whole_variables(std::string_view op) {
  constexpr std::string_view kPrefix = "tf::";
  if (!op.starts_with(kPrefix)) return false;
  op.remove_prefix(kPrefix.size());
  return op == "AssignVariableOp" || op == "AssignAddVariableOp" || op == "AssignSubVariableOp" ||
         (op.starts_with("ResourceApply") && !op.starts_with("ResourceApplySparse"));
}

}  // namespace

bool reads_whole_variable(const Graph& graph, NodeId node) {
  constexpr std::string_view kRead = "ReadVariableOp";
  std::string_view op = graph.op(node);
  if (const std::size_t colons = op.rfind("::"); colons != std::string_view::npos) {
    op.remove_prefix(colons + 2);
  }
  return op == kRead || hands_out_variable(graph, node);
}

Variables find_variables(const Graph& graph) {
  Variables variables;
  variables.is_read.assign(graph.storage_count(), false);
  std::vector<Bytes> sizes(graph.storage_count());
  std::vector<bool> is_on_device(graph.storage_count());
  const auto note = [&](TensorId handle, Bytes size, bool on_device) {
    const std::size_t storage = graph.storage(handle).index();
    sizes[storage] = std::max(sizes[storage], size);
    is_on_device[storage] = is_on_device[storage] || on_device;
  };
  for (const NodeId node : graph.order()) {
    const auto operands = graph.operands(node);
    if (operands.empty() || !operands[0].tensor.valid()) continue;
    const auto results = graph.results(node);
    if (reads_whole_variable(graph, node) && !results.empty()) {
      const StorageId read = graph.storage(results[0]);
      variables.is_read[read.index()] = true;
      note(operands[0].tensor, graph.size(read).value_or(Bytes{}),
           graph.residence(read) == Residence::kDevice);
    } else if (is_of_whole_variables(graph.op(node))) {
      const TensorId beside = largest_beside(graph, node);
      if (!beside.valid()) continue;
      const TensorType& type = graph.type(beside);
      const Bytes size = extent(type).value_or(Bytes{});
      for (const Operand& operand : operands) {
        if (!operand.tensor.valid() || !is_handle(graph, operand.tensor)) continue;
        note(operand.tensor, size, type.residence == Residence::kDevice);
      }
    }
  }
  for (const StorageId storage : graph.storages()) {
    if (!is_on_device[storage.index()] || sizes[storage.index()] == Bytes{}) continue;
    variables.on_device.push_back({storage, sizes[storage.index()]});
    variables.device_bytes += sizes[storage.index()];
  }
  return variables;
}

}  // namespace ebb
