// The runtime scalars of a step and host arithmetic on them, with Python's meaning and, because
// both use the C library, Python's bits.
//
// Where Python's answer is no number of ours (an integer of more than 64 bits, a complex number),
// and where Python raises, the answer is an error in Python's words.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"

namespace ebb::exec {

using Number = std::variant<bool, std::int64_t, double>;

class Scalars {
 public:
  explicit Scalars(const Graph& graph) : values_(graph.scalar_count(), 0.0) {}

  [[nodiscard]] const Number& operator[](ScalarId scalar) const { return values_[scalar.index()]; }
  void set(ScalarId scalar, Number value) { values_[scalar.index()] = value; }
  bool operator==(const Scalars&) const = default;

 private:
  std::vector<Number> values_;
};

// One operator of graph/scalar_op.h. Fails where Python raises: division by zero, sqrt of a
// negative number, overflow.
[[nodiscard]] Result<Number> compute(std::string_view op, std::span<const Number> arguments);

// The number as the type says: what is given to a `scalar $s: f64` becomes a double, rounded if
// need be, as by Python's float(). Nothing else is rounded: 2.5 is no i64, 2 no bool.
[[nodiscard]] Result<Number> convert(const Number& value, DType dtype);

// "true", "3", "0.5": as Python prints them, but for the bools.
std::string to_text(const Number& number);

// One line of host arithmetic made ready: nothing is looked up when it runs.
class Arithmetic {
 public:
  Arithmetic(const Graph& graph, NodeId node);  // the node must pass the verifier

  // Sets the scalar that the node makes, converted to its type.
  [[nodiscard]] Status run(Scalars& scalars) const;

 private:
  using Function = Result<Number> (*)(std::span<const Number>);

  Function function_ = nullptr;
  std::array<std::variant<Number, ScalarId>, 2> arguments_;
  std::size_t arity_;
  ScalarId result_;
  DType dtype_;
};

}  // namespace ebb::exec
