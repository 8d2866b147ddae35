// One operation as the formulas of the roofline see it: sizes as doubles, so that no product
// overflows, and defaults for what is not there, so that no graph is too odd to have a cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ebb/graph/graph.h"

namespace ebb {

// Elements; 1 for a tensor that is not there.
double element_count(const TensorType* type);
// A dimension, from the end when negative (-1 is the last); 1 where there is none.
double dim(const TensorType* type, int index);
// To read or write the tensor once: elements that broadcasting repeats count once; 0 for tensors
// that are not there, live on the host or have elements of no fixed size.
double bytes_moved(const TensorType* type);

class Operation {
 public:
  Operation(const Graph& graph, NodeId node) : graph_(graph), node_(node) {}

  // Lists are flattened. nullptr: there is none.
  [[nodiscard]] std::size_t operand_count() const { return graph_.operands(node_).size(); }
  [[nodiscard]] const TensorType* operand(std::size_t index) const;
  [[nodiscard]] const TensorType* result(std::size_t index) const;
  [[nodiscard]] const TensorType* largest_operand() const;  // by the bytes to read it

  [[nodiscard]] double operand_bytes(std::size_t index) const {
    return bytes_moved(operand(index));
  }
  [[nodiscard]] double result_bytes(std::size_t index) const { return bytes_moved(result(index)); }
  [[nodiscard]] double all_operand_bytes() const;
  [[nodiscard]] double all_result_bytes() const;
  [[nodiscard]] double all_result_elements() const;
  [[nodiscard]] bool is_on_cpu() const;  // by TensorFlow's name of its device
  [[nodiscard]] bool updates_something() const { return graph_.updates_something(node_); }

  // Attributes; the default when there is none of that kind.
  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const;
  [[nodiscard]] std::string_view text(std::string_view key) const;  // empty when there is none
  // Whether the list of flags has a true at this place; true when there is no such list.
  [[nodiscard]] bool flag_in(std::string_view key, std::size_t index) const;

 private:
  const Graph& graph_;
  NodeId node_;
};

}  // namespace ebb
