#include "ebb/graph/repeatable.h"

#include <algorithm>
#include <array>
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

bool steers_control_flow(const Graph& graph, NodeId node) {
  constexpr std::array<std::string_view, 6> kOps = {
      "tf::Enter", "tf::Exit", "tf::LoopCond", "tf::Merge", "tf::NextIteration", "tf::Switch"};
  return std::find(kOps.begin(), kOps.end(), graph.op(node)) != kOps.end();
}

}  // namespace ebb
