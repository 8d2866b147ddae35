#include "ebb/graph/repeatable.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace ebb {

namespace {

bool is_handle(DType dtype) { return dtype == DType::kResource || dtype == DType::kVariant; }

// "tf::RefMerge" is a tf::Merge of references.
bool is_any_of(std::string_view op, std::span<const std::string_view> ops) {
  constexpr std::string_view kPrefix = "tf::";
  if (!op.starts_with(kPrefix)) return false;
  op.remove_prefix(kPrefix.size());
  if (op.starts_with("Ref")) op.remove_prefix(3);
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

}  // namespace

bool hands_on_bytes(std::string_view op) {
  constexpr std::array<std::string_view, 8> kOps = {
      "tf::Bitcast",         "tf::ExpandDims", "tf::Identity", "tf::IdentityN",
      "tf::PreventGradient", "tf::Reshape",    "tf::Squeeze",  "tf::StopGradient"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

bool hands_out_variable(const Graph& graph, NodeId node) {
  const auto operands = graph.operands(node);
  const auto results = graph.results(node);
  return hands_on_bytes(graph.op(node)) && !operands.empty() && operands[0].tensor.valid() &&
         is_handle(graph.type(operands[0].tensor).dtype) && !results.empty() &&
         !is_handle(graph.type(results[0]).dtype);
}

TensorId find_handle(const Graph& graph, NodeId node) {
  for (const Operand& operand : graph.operands(node)) {
    if (!operand.tensor.valid()) continue;
    if (is_handle(graph.type(operand.tensor).dtype)) return operand.tensor;
    const TensorId root = graph.root(graph.storage(operand.tensor));
    if (hands_out_variable(graph, graph.producer(root))) return operand.tensor;
  }
  return {};
}

bool steers_control_flow(const Graph& graph, NodeId node) {
  constexpr std::array<std::string_view, 7> kOps = {"Enter",         "Exit",   "LoopCond", "Merge",
                                                    "NextIteration", "Switch", "_SwitchN"};
  return is_any_of(graph.op(node), kOps);
}

}  // namespace ebb
