#include "ebb/graph/convolution_backward.h"

#include <algorithm>

namespace ebb {

std::optional<GradientMask> gradient_mask(const Graph& graph, NodeId node) {
  if (graph.op(node) != kConvolutionBackward) return std::nullopt;
  const auto operands = graph.operands(node);
  const bool are_alone = std::all_of(operands.begin(), operands.end(), [](const Operand& it) {
    return it.position == Operand::Position::kAlone;
  });
  const Attribute* attribute = graph.find_attribute(node, kOutputMask);
  if (operands.size() != 3 || !are_alone || attribute == nullptr) return std::nullopt;
  const auto items = graph.items(*attribute);
  GradientMask mask{};
  if (items.size() != mask.size()) return std::nullopt;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const bool* flag = std::get_if<bool>(&items[i]);
    if (flag == nullptr) return std::nullopt;
    mask[i] = *flag;
  }
  const auto gradients = static_cast<std::size_t>(std::count(mask.begin(), mask.end(), true));
  const auto results = graph.results(node);
  // New ones: nothing is updated. On one side: where a call runs follows from where they are.
  const bool are_new = std::all_of(results.begin(), results.end(), [&](TensorId result) {
    return graph.root(graph.storage(result)) == result &&
           graph.type(result).residence == graph.type(results[0]).residence;
  });
  if (results.size() != gradients || !are_new) return std::nullopt;
  return mask;
}

}  // namespace ebb
