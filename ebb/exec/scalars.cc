// Integers are computed exactly or not at all; floats follow CPython's floatobject.c, corner cases
// included. A bool is an integer wherever it is computed with.
#include "ebb/exec/scalars.h"

#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/scalar_op.h"

namespace ebb::exec {
namespace {

using Int = std::int64_t;
using Arguments = std::span<const Number>;

constexpr std::string_view kTooLarge = "the result does not fit in 64 bits";

tl::unexpected<Error> raise(std::string_view what) {
  return fail(ErrorKind::kBadInput, std::string(what));
}

bool is_int(const Number& number) { return !std::holds_alternative<double>(number); }

Int as_int(const Number& number) {
  const auto* boolean = std::get_if<bool>(&number);
  return boolean != nullptr ? Int{*boolean} : std::get<Int>(number);
}

double as_double(const Number& number) {
  const auto* real = std::get_if<double>(&number);
  return real != nullptr ? *real : static_cast<double>(as_int(number));
}

bool both_int(Arguments a) { return is_int(a[0]) && is_int(a[1]); }

// Python compares an integer with a float by value; 2**53 + 1 is greater than 2.0**53.
bool less(Int a, double b) {
  if (std::isnan(b)) return false;
  if (b >= 0x1p63) return true;
  if (b < -0x1p63) return false;
  const double whole = std::floor(b);
  const auto truncated = static_cast<Int>(whole);
  return a < truncated || (a == truncated && whole < b);
}

bool less(double a, Int b) {
  if (std::isnan(a)) return false;
  if (a >= 0x1p63) return false;
  if (a < -0x1p63) return true;
  const double whole = std::floor(a);
  return static_cast<Int>(whole) < b;
}

bool less(const Number& a, const Number& b) {
  if (is_int(a)) return is_int(b) ? as_int(a) < as_int(b) : less(as_int(a), as_double(b));
  return is_int(b) ? less(as_double(a), as_int(b)) : as_double(a) < as_double(b);
}

Result<Number> add(Arguments a) {
  if (!both_int(a)) return as_double(a[0]) + as_double(a[1]);
  Int sum = 0;
  if (__builtin_add_overflow(as_int(a[0]), as_int(a[1]), &sum)) return raise(kTooLarge);
  return sum;
}

Result<Number> sub(Arguments a) {
  if (!both_int(a)) return as_double(a[0]) - as_double(a[1]);
  Int difference = 0;
  if (__builtin_sub_overflow(as_int(a[0]), as_int(a[1]), &difference)) return raise(kTooLarge);
  return difference;
}

Result<Number> mul(Arguments a) {
  if (!both_int(a)) return as_double(a[0]) * as_double(a[1]);
  Int product = 0;
  if (__builtin_mul_overflow(as_int(a[0]), as_int(a[1]), &product)) return raise(kTooLarge);
  return product;
}

std::uint64_t magnitude(Int value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? 0 - bits : bits;
}

// The quotient of two integers, rounded once. Their doubles would do up to 2^53; beyond, both would
// be rounded before they are divided.
double exact_quotient(Int dividend, Int divisor) {
  __extension__ using Wide = unsigned __int128;
  const std::uint64_t a = magnitude(dividend);
  const std::uint64_t b = magnitude(divisor);
  // Enough bits for a double (53), one to round by, and one that says whether there are more.
  const int shift =
      std::max(0, 56 + static_cast<int>(std::bit_width(b)) - static_cast<int>(std::bit_width(a)));
  const Wide scaled = static_cast<Wide>(a) << static_cast<unsigned>(shift);
  auto quotient = static_cast<std::uint64_t>(scaled / b);
  if (scaled % b != 0) quotient |= 1U;
  const double result = std::ldexp(static_cast<double>(quotient), -shift);
  return (dividend < 0) != (divisor < 0) ? -result : result;
}

Result<Number> truediv(Arguments a) {
  if (as_double(a[1]) == 0) return raise("division by zero");
  if (!both_int(a)) return as_double(a[0]) / as_double(a[1]);
  return exact_quotient(as_int(a[0]), as_int(a[1]));
}

Result<Number> floordiv(Arguments a) {
  if (both_int(a)) {
    const Int x = as_int(a[0]);
    const Int y = as_int(a[1]);
    if (y == 0) return raise("integer division or modulo by zero");
    if (x == std::numeric_limits<Int>::min() && y == -1) return raise(kTooLarge);
    const Int quotient = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
  }
  const double x = as_double(a[0]);
  const double y = as_double(a[1]);
  if (y == 0) return raise("float floor division by zero");
  const double remainder = std::fmod(x, y);
  double quotient = (x - remainder) / y;
  if (remainder != 0 && (y < 0) != (remainder < 0)) quotient -= 1.0;
  if (quotient == 0) return std::copysign(0.0, x / y);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

Result<Number> mod(Arguments a) {
  if (both_int(a)) {
    const Int x = as_int(a[0]);
    const Int y = as_int(a[1]);
    if (y == 0) return raise("integer division or modulo by zero");
    if (y == -1) return Int{0};  // the machine's remainder of the least integer overflows
    const Int remainder = x % y;
    return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
  }
  const double x = as_double(a[0]);
  const double y = as_double(a[1]);
  if (y == 0) return raise("float modulo by zero");
  const double remainder = std::fmod(x, y);
  if (remainder == 0) return std::copysign(0.0, y);
  return (y < 0) != (remainder < 0) ? remainder + y : remainder;
}

Result<Number> int_pow(Int base, Int exponent) {
  Int power = 1;
  for (;;) {
    if (exponent % 2 != 0 && __builtin_mul_overflow(power, base, &power)) return raise(kTooLarge);
    exponent /= 2;
    if (exponent == 0) return power;
    if (__builtin_mul_overflow(base, base, &base)) return raise(kTooLarge);
  }
}

Result<Number> float_pow(double base, double exponent) {
  if (base == 0 && exponent < 0 && std::isfinite(exponent))
    return raise("0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) &&
      exponent != std::floor(exponent)) {
    return raise("a negative number to a fractional power is a complex number");
  }
  // For the rest the C library agrees with Python: infinities, NaN, zeros of both signs.
  const double power = std::pow(base, exponent);
  if (std::isinf(power) && std::isfinite(base) && std::isfinite(exponent)) {
    return raise("(34, 'Numerical result out of range')");
  }
  return power;
}

Result<Number> pow(Arguments a) {
  if (both_int(a) && as_int(a[1]) >= 0) return int_pow(as_int(a[0]), as_int(a[1]));
  return float_pow(as_double(a[0]), as_double(a[1]));
}

Result<Number> sqrt(Arguments a) {
  const double x = as_double(a[0]);
  if (x < 0) return raise("math domain error");
  return std::sqrt(x);
}

Result<Number> neg(Arguments a) {
  if (!is_int(a[0])) return -as_double(a[0]);
  if (as_int(a[0]) == std::numeric_limits<Int>::min()) return raise(kTooLarge);
  return -as_int(a[0]);
}

Result<Number> abs(Arguments a) {
  if (!is_int(a[0])) return std::fabs(as_double(a[0]));
  return as_int(a[0]) < 0 ? neg(a) : Result<Number>(as_int(a[0]));
}

Result<Number> to_float(Arguments a) { return as_double(a[0]); }

Result<Number> to_int(Arguments a) {
  if (is_int(a[0])) return as_int(a[0]);
  const double x = as_double(a[0]);
  if (std::isnan(x)) return raise("cannot convert float NaN to integer");
  if (std::isinf(x)) return raise("cannot convert float infinity to integer");
  if (x >= 0x1p63 || x < -0x1p63) return raise(kTooLarge);
  return static_cast<Int>(x);
}

// The first of equals, with its type, as Python's do.
Result<Number> max(Arguments a) { return less(a[0], a[1]) ? a[1] : a[0]; }
Result<Number> min(Arguments a) { return less(a[1], a[0]) ? a[1] : a[0]; }

struct Entry {
  std::string_view op;
  Result<Number> (*function)(Arguments);
};

constexpr std::array kEntries = {
    Entry{"scalar::abs", abs},        Entry{"scalar::add", add},
    Entry{"scalar::float", to_float}, Entry{"scalar::floordiv", floordiv},
    Entry{"scalar::int", to_int},     Entry{"scalar::max", max},
    Entry{"scalar::min", min},        Entry{"scalar::mod", mod},
    Entry{"scalar::mul", mul},        Entry{"scalar::neg", neg},
    Entry{"scalar::pow", pow},        Entry{"scalar::sqrt", sqrt},
    Entry{"scalar::sub", sub},        Entry{"scalar::truediv", truediv},
};

const Entry* find_entry(std::string_view op) {
  for (const Entry& entry : kEntries) {
    if (entry.op == op) return &entry;
  }
  return nullptr;
}

}  // namespace

Result<Number> compute(std::string_view op, std::span<const Number> arguments) {
  const Entry* entry = find_entry(op);
  const ScalarOp* known = find_scalar_op(op);
  if (entry == nullptr || known == nullptr) {
    return fail(ErrorKind::kBadInput, fmt::format("there is no host arithmetic {}", op));
  }
  if (arguments.size() != known->arity) {
    return fail(ErrorKind::kBadInput,
                fmt::format("{} takes {} arguments, not {}", op, known->arity, arguments.size()));
  }
  return entry->function(arguments);
}

Result<Number> convert(const Number& value, DType dtype) {
  const double real = as_double(value);
  switch (dtype) {
    case DType::kF64:
      return real;
    case DType::kI64:
      if (is_int(value)) return as_int(value);
      if (real == std::trunc(real) && real >= -0x1p63 && real < 0x1p63) {
        return static_cast<Int>(real);
      }
      break;
    case DType::kBool:
      if (real == 0 || real == 1) return real == 1;
      break;
    default:
      break;
  }
  return fail(ErrorKind::kBadInput, fmt::format("{} is no {}", to_text(value), name(dtype)));
}

std::string to_text(const Number& number) {
  if (const auto* real = std::get_if<double>(&number)) {
    return std::isnan(*real) ? "nan" : fmt::format("{:#}", *real);
  }
  if (const auto* boolean = std::get_if<bool>(&number)) return *boolean ? "true" : "false";
  return fmt::format("{}", std::get<Int>(number));
}

Arithmetic::Arithmetic(const Graph& graph, NodeId node)
    : arity_(graph.scalar_arguments(node).size()),
      result_(graph.scalar_result(node)),
      dtype_(graph.dtype(result_)) {
  const Entry* entry = find_entry(graph.op(node));
  const ScalarOp* known = find_scalar_op(graph.op(node));
  EBB_CHECK(entry != nullptr && known != nullptr && known->arity == arity_ && arity_ <= 2,
            "'{}' is no host arithmetic", graph.name(node));
  function_ = entry->function;
  for (std::size_t i = 0; i < arity_; ++i) {
    const Value& argument = graph.scalar_arguments(node)[i];
    if (const auto* scalar = std::get_if<ScalarId>(&argument)) {
      arguments_[i] = *scalar;
    } else if (const auto* real = std::get_if<double>(&argument)) {
      arguments_[i] = Number(*real);
    } else if (const auto* integer = std::get_if<Int>(&argument)) {
      arguments_[i] = Number(*integer);
    } else {
      arguments_[i] = Number(std::get<bool>(argument));
    }
  }
}

Status Arithmetic::run(Scalars& scalars) const {
  const auto load = [&](const std::variant<Number, ScalarId>& argument) -> const Number& {
    const auto* scalar = std::get_if<ScalarId>(&argument);
    return scalar != nullptr ? scalars[*scalar] : *std::get_if<Number>(&argument);
  };
  const std::array<Number, 2> values = {load(arguments_[0]), load(arguments_[1])};
  auto result = function_(std::span<const Number>(values).first(arity_));
  if (!result) return fail(std::move(result.error()));
  auto converted = convert(*result, dtype_);
  if (!converted) return fail(std::move(converted.error()));
  scalars.set(result_, *converted);
  return {};
}

}  // namespace ebb::exec
