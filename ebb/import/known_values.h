// What small tensors of whole numbers hold, as far as it follows from the graph: constants, the
// shapes of tensors, and what a step computes of these on the way to the operand that says how
// large a result is (`Shape`, `StridedSlice`, `Pack`, `Prod`, ...).
//
//   KnownValues known(graph);
//   for (const NodeId node : graph.order()) {
//     known.follow(node);  // once the types of its operands are settled
//     if (const Elements* shape = known.find(tensor)) ...
//   }
//
// Nothing is guessed: where an operator is not known here, or an operand is not, the value is not.
// O(1) a node, but for lists of operands.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

// In row-major order; nothing for elements that are not known.
using Elements = std::vector<std::optional<std::int64_t>>;

class KnownValues {
 public:
  // The graph must live on; its types may be completed meanwhile.
  explicit KnownValues(const Graph& graph);

  // Finds what the node's results hold. Nodes come in the order of their lines.
  void follow(NodeId node);

  // nullptr: nothing is known, not even how many elements there are.
  [[nodiscard]] const Elements* find(TensorId tensor) const;
  // Of an operand; nullptr also where there is none at this place.
  [[nodiscard]] const Elements* find_operand(NodeId node, std::size_t place) const;

 private:
  const Graph& graph_;
  std::vector<std::optional<Elements>> values_;  // by tensor
};

// Of a node's attribute; `otherwise` where it has none of that kind.
bool bool_attribute(const Graph& graph, NodeId node, std::string_view key, bool otherwise);
std::int64_t int_attribute(const Graph& graph, NodeId node, std::string_view key,
                           std::int64_t otherwise);

}  // namespace ebb
