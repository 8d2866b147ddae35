// Host arithmetic on runtime scalars: the operators `scalar::add`, ... that a graph may use between
// steps' numbers such as the learning rate and Adam's bias corrections. Their meaning is Python's,
// because that is where users' optimizers compute these numbers.
#pragma once

#include <span>
#include <string_view>

namespace ebb {

// Whether the operator is host arithmetic, known or not: its arguments are numbers and scalars.
inline bool is_host_arithmetic(std::string_view op) { return op.starts_with("scalar::"); }

struct ScalarOp {
  std::string_view name;
  std::size_t arity;
};

std::span<const ScalarOp> scalar_ops();
const ScalarOp* find_scalar_op(std::string_view name);  // nullptr when there is none

}  // namespace ebb
