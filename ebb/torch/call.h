// One operation of a graph as a call of PyTorch's dispatcher.
//
// Arguments are found by the operator's schema: those that are tensors, or lists of tensors, are
// the node's operands in order; the others are its attributes by name, with the schema's default
// where there is none. A number in place of a tensor is an attribute as well. A runtime scalar is
// filled in before each call, everything else once. An input of which nothing but its type is asked
// for (graph/convolution_backward.h) may be absent, and lies in the bytes of the result then.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include "ebb/base/result.h"
#include "ebb/exec/scalars.h"
#include "ebb/graph/graph.h"

namespace ebb::torch {

class Call {
 public:
  // `tensor_of` gives the tensor for an operand; what the operator makes out of nothing is made on
  // `device`. kBadInput when there is no such operator, or the node does not fit its schema.
  [[nodiscard]] static Result<Call> make(const Graph& graph, NodeId node, c10::Device device,
                                         const std::function<at::Tensor(TensorId)>& tensor_of);

  void set_scalars(const exec::Scalars& scalars);
  // Calls the operator. Throws what it throws. What it returned stays until the next call or
  // clear().
  void run();
  void clear() { stack_.clear(); }

  // The tensors it returned, in order, each once, without those that are updated operands, and
  // without undefined ones: these are the node's own results.
  [[nodiscard]] std::vector<at::Tensor> returned_tensors() const;
  [[nodiscard]] const c10::IValue& returned() const { return stack_.front(); }

 private:
  // Where a runtime scalar goes.
  struct Slot {
    enum class Kind : std::uint8_t { kNumber, kListItem, kTensor };
    Kind kind = Kind::kNumber;
    ScalarId scalar;
    DType dtype = DType::kF64;
    std::size_t argument = 0;
    std::size_t item = 0;   // of the list
    bool as_float = false;  // the schema wants a float, and an integer would not do
    at::Tensor tensor;      // holds the number, for kTensor
  };

  explicit Call(c10::OperatorHandle op) : op_(std::move(op)) {}
  friend class CallBuilder;

  c10::OperatorHandle op_;
  std::vector<c10::IValue> arguments_;
  std::vector<Slot> slots_;
  std::vector<bool> returns_operand_;  // by position: what is returned is an updated operand
  std::vector<c10::IValue> stack_;
};

// "add.Tensor" is the overload Tensor of add.
[[nodiscard]] Result<c10::OperatorHandle> find_operator(std::string_view op);

}  // namespace ebb::torch
