#include "ebb/graph/repeatable.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace ebb {

TensorId find_handle(const Graph& graph, NodeId node) {
  for (const Operand& operand : graph.operands(node)) {
    if (!operand.tensor.valid()) continue;
    const DType dtype = graph.type(operand.tensor).dtype;
    if (dtype == DType::kResource || dtype == DType::kVariant) return operand.tensor;
  }
  return {};
}

namespace {

// "tf::RefMerge" is a tf::Merge of references.
bool is_any_of(std::string_view op, std::span<const std::string_view> ops) {
  constexpr std::string_view kPrefix = "tf::";
  if (!op.starts_with(kPrefix)) return false;
  op.remove_prefix(kPrefix.size());
  if (op.starts_with("Ref")) op.remove_prefix(3);
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

}  // namespace

bool steers_control_flow(const Graph& graph, NodeId node) {
  constexpr std::array<std::string_view, 7> kOps = {"Enter",         "Exit",   "LoopCond", "Merge",
                                                    "NextIteration", "Switch", "_SwitchN"};
  return is_any_of(graph.op(node), kOps);
}

}  // namespace ebb
