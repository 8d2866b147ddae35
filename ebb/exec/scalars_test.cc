#include "ebb/exec/scalars.h"

#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/scalar_op.h"

namespace ebb::exec {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::nullopt_t raises = std::nullopt;  // NOLINT(readability-identifier-naming): a word

struct Row {
  std::string_view op;
  std::vector<Number> arguments;
  std::optional<Number> expected;
};

// NOLINTBEGIN(modernize-use-std-numbers): numbers as Python printed them
// What Python 3.11 answers. `raises` also stands where its answer is complex, or an integer of more
// than 64 bits.
const std::vector<Row>& python() {
  static const std::vector<Row> kRows = {
      {"add", {1L, 2L}, 3L},
      {"add", {1L, 0x1.4000000000000p+1}, 0x1.c000000000000p+1},
      {"add", {true, true}, 2L},
      {"add", {true, 0x1.0000000000000p-1}, 0x1.8000000000000p+0},
      {"add", {0x1.999999999999ap-4, 0x1.999999999999ap-3}, 0x1.3333333333334p-2},
      {"add", {9223372036854775807L, 1L}, raises},
      {"add", {kLeast, -1L}, raises},
      {"add", {9223372036854775807L, 0L}, 9223372036854775807L},
      {"add", {0x1.1ccf385ebc8a0p+1023, 0x1.1ccf385ebc8a0p+1023}, kInf},
      {"add", {kInf, -kInf}, kNan},
      {"add", {9007199254740992L, 0x1.0000000000000p+0}, 0x1.0000000000000p+53},
      {"add", {-0.0, 0.0}, 0.0},
      {"add", {-0.0, 0L}, 0.0},
      {"sub", {1L, 2L}, -1L},
      {"sub", {0x1.0000000000000p+0, 0x1.ccccccccccccdp-1}, 0x1.9999999999998p-4},
      {"sub", {true, true}, 0L},
      {"sub", {kLeast, 1L}, raises},
      {"sub", {9223372036854775807L, -1L}, raises},
      {"sub", {0x1.3333333333333p-2, 0x1.999999999999ap-4}, 0x1.9999999999999p-3},
      {"sub", {-0.0, 0L}, -0.0},
      {"sub", {1L, 0x1.fc6d3e72229bcp-1}, 0x1.c960c6eeb2200p-8},
      {"mul", {3L, 4L}, 12L},
      {"mul", {3L, 0x1.999999999999ap-4}, 0x1.3333333333334p-2},
      {"mul", {true, 7L}, 7L},
      {"mul", {4294967296L, 2147483648L}, raises},
      {"mul", {4294967296L, 1073741824L}, 4611686018427387904L},
      {"mul", {-0.0, 3L}, -0.0},
      {"mul", {0x1.4e718d7d7625ap+664, 0x1.4e718d7d7625ap+664}, kInf},
      {"mul", {kLeast, -1L}, raises},
      {"mul", {0L, -0x1.8000000000000p+0}, -0.0},
      {"mul", {kInf, 0L}, kNan},
      {"truediv", {1L, 3L}, 0x1.5555555555555p-2},
      {"truediv", {7L, 2L}, 0x1.c000000000000p+1},
      {"truediv", {1L, 0L}, raises},
      {"truediv", {0x1.0000000000000p+0, 0.0}, raises},
      {"truediv", {0L, 5L}, 0.0},
      {"truediv", {0L, -5L}, -0.0},
      {"truediv", {0.0, -5L}, -0.0},
      {"truediv", {-7L, 2L}, -0x1.c000000000000p+1},
      {"truediv", {9007199254740993L, 3L}, 0x1.5555555555556p+51},
      {"truediv", {4611686018427387905L, 2305843009213693951L}, 0x1.0000000000000p+1},
      {"truediv", {9223372036854775807L, 3L}, 0x1.5555555555555p+61},
      {"truediv", {kLeast, 3L}, -0x1.5555555555555p+61},
      {"truediv", {kLeast, -1L}, 0x1.0000000000000p+63},
      {"truediv", {9223372036854775807L, 9223372036854775806L}, 0x1.0000000000000p+0},
      {"truediv", {1L, 9223372036854775807L}, 0x1.0000000000000p-63},
      {"truediv", {-1L, 9223372036854775807L}, -0x1.0000000000000p-63},
      {"truediv", {9223372036854775807L, 2L}, 0x1.0000000000000p+62},
      {"truediv", {9007199254740993L, 1L}, 0x1.0000000000000p+53},
      {"truediv", {9007199254740995L, 1L}, 0x1.0000000000002p+53},
      {"truediv", {0x1.999999999999ap-4, 3L}, 0x1.1111111111111p-5},
      {"truediv", {0x1.1ccf385ebc8a0p+1023, 0x1.b7cdfd9d7bdbbp-34}, kInf},
      {"truediv", {true, 2L}, 0x1.0000000000000p-1},
      {"truediv", {5L, kInf}, 0.0},
      {"truediv", {kInf, kInf}, kNan},
      {"truediv", {4611686018427387905L, 7L}, 0x1.2492492492492p+59},
      {"truediv", {36028797018963969L, 36028797018963967L}, 0x1.0000000000000p+0},
      {"truediv", {1L, kLeast}, -0x1.0000000000000p-63},
      {"floordiv", {7L, 2L}, 3L},
      {"floordiv", {-7L, 2L}, -4L},
      {"floordiv", {7L, -2L}, -4L},
      {"floordiv", {-7L, -2L}, 3L},
      {"floordiv", {6L, -2L}, -3L},
      {"floordiv", {1L, 0L}, raises},
      {"floordiv", {kLeast, -1L}, raises},
      {"floordiv", {kLeast, 1L}, kLeast},
      {"floordiv", {0x1.e000000000000p+2, 2L}, 0x1.8000000000000p+1},
      {"floordiv", {-0x1.e000000000000p+2, 2L}, -0x1.0000000000000p+2},
      {"floordiv", {0x1.e000000000000p+2, -2L}, -0x1.0000000000000p+2},
      {"floordiv", {0.0, 3L}, 0.0},
      {"floordiv", {-0.0, 3L}, -0.0},
      {"floordiv", {0x1.0000000000000p+0, 0L}, raises},
      {"floordiv", {1L, 0x1.999999999999ap-4}, 0x1.2000000000000p+3},
      {"floordiv", {0x1.3333333333333p-2, 0x1.999999999999ap-4}, 0x1.0000000000000p+1},
      {"floordiv", {-0x1.3333333333333p-2, 0x1.999999999999ap-4}, -0x1.8000000000000p+1},
      {"floordiv", {kInf, 2L}, kNan},
      {"floordiv", {5L, kInf}, 0.0},
      {"floordiv", {-5L, kInf}, -0x1.0000000000000p+0},
      {"floordiv", {0x1.4000000000000p+2, -kInf}, -0x1.0000000000000p+0},
      {"floordiv", {0x1.7e43c8800759cp+996, 0x1.56e1fc2f8f359p-997}, kInf},
      {"floordiv", {true, 2L}, 0L},
      {"floordiv", {0x1.1c37937e08000p+53, 0x1.999999999999ap-4}, 0x1.6345785d8a000p+56},
      {"floordiv", {kNan, 1L}, kNan},
      {"mod", {7L, 3L}, 1L},
      {"mod", {-7L, 3L}, 2L},
      {"mod", {7L, -3L}, -2L},
      {"mod", {-7L, -3L}, -1L},
      {"mod", {6L, -3L}, 0L},
      {"mod", {1L, 0L}, raises},
      {"mod", {kLeast, -1L}, 0L},
      {"mod", {0x1.e000000000000p+2, 2L}, 0x1.8000000000000p+0},
      {"mod", {-0x1.e000000000000p+2, 2L}, 0x1.0000000000000p-1},
      {"mod", {0x1.e000000000000p+2, -2L}, -0x1.0000000000000p-1},
      {"mod", {-0x1.0000000000000p+2, 2L}, 0.0},
      {"mod", {0x1.0000000000000p+2, -2L}, -0.0},
      {"mod", {0.0, -2L}, -0.0},
      {"mod", {0x1.0000000000000p+0, 0L}, raises},
      {"mod", {1L, 0x1.999999999999ap-4}, 0x1.9999999999996p-4},
      {"mod", {5L, kInf}, 0x1.4000000000000p+2},
      {"mod", {-5L, kInf}, kInf},
      {"mod", {0x1.4000000000000p+2, -kInf}, -kInf},
      {"mod", {kInf, 2L}, kNan},
      {"mod", {true, 2L}, 1L},
      {"mod", {-0x1.79ca10c924223p-67, 0x1.8000000000000p+1}, 0x1.8000000000000p+1},
      {"mod", {kNan, 2L}, kNan},
      {"pow", {2L, 10L}, 1024L},
      {"pow", {2L, 62L}, 4611686018427387904L},
      {"pow", {2L, 63L}, raises},
      {"pow", {-2L, 63L}, kLeast},
      {"pow", {-2L, 64L}, raises},
      {"pow", {0L, 0L}, 1L},
      {"pow", {0L, 5L}, 0L},
      {"pow", {1L, 9223372036854775807L}, 1L},
      {"pow", {-1L, 9223372036854775807L}, -1L},
      {"pow", {3L, 39L}, 4052555153018976267L},
      {"pow", {3L, 40L}, raises},
      {"pow", {2L, -1L}, 0x1.0000000000000p-1},
      {"pow", {-2L, -3L}, -0x1.0000000000000p-3},
      {"pow", {10L, -5L}, 0x1.4f8b588e368f1p-17},
      {"pow", {0L, -1L}, raises},
      {"pow", {0.0, -1L}, raises},
      {"pow", {-0.0, -3L}, raises},
      {"pow", {0.0, -kInf}, kInf},
      {"pow", {0x1.0000000000000p+1, 0x1.0000000000000p-1}, 0x1.6a09e667f3bcdp+0},
      {"pow", {0x1.ccccccccccccdp-1, 100L}, 0x1.bda056ed49410p-16},
      {"pow", {0x1.ff7ced916872bp-1, 7L}, 0x1.fc6d3e72229bcp-1},
      {"pow", {0x1.ccccccccccccdp-1, 0x1.8000000000000p+1}, 0x1.753f7ced91688p-1},
      {"pow", {-8L, 0x1.5555555555555p-2}, raises},
      {"pow", {-0x1.0000000000000p+3, 3L}, -0x1.0000000000000p+9},
      {"pow", {-0x1.0000000000000p+1, -2L}, 0x1.0000000000000p-2},
      {"pow", {0x1.4000000000000p+3, 308L}, 0x1.1ccf385ebc8a0p+1023},
      {"pow", {0x1.4000000000000p+3, 309L}, raises},
      {"pow", {0x1.4000000000000p+3, -400L}, 0.0},
      {"pow", {-0x1.4000000000000p+3, 309L}, raises},
      {"pow", {kNan, 0L}, 0x1.0000000000000p+0},
      {"pow", {1L, kNan}, 0x1.0000000000000p+0},
      {"pow", {kNan, 0x1.0000000000000p+0}, kNan},
      {"pow", {kInf, -1L}, 0.0},
      {"pow", {-kInf, 3L}, -kInf},
      {"pow", {-kInf, 2L}, kInf},
      {"pow", {-kInf, -3L}, -0.0},
      {"pow", {-kInf, 0x1.0000000000000p-1}, kInf},
      {"pow", {-0x1.0000000000000p+0, kInf}, 0x1.0000000000000p+0},
      {"pow", {0x1.0000000000000p-1, kInf}, 0.0},
      {"pow", {0x1.0000000000000p+1, -kInf}, 0.0},
      {"pow", {2L, 0x1.0000000000000p-1}, 0x1.6a09e667f3bcdp+0},
      {"pow", {4L, 0x1.0000000000000p-1}, 0x1.0000000000000p+1},
      {"pow", {true, -1L}, 0x1.0000000000000p+0},
      {"pow", {false, 0L}, 1L},
      {"pow", {true, true}, 1L},
      {"pow", {-0.0, 3L}, -0.0},
      {"pow", {-0.0, 2L}, 0.0},
      {"pow", {0x1.87e92154ef7acp-665, 2L}, 0.0},
      {"pow", {0x1.0000000000000p+1, -1074L}, 0x0.0000000000001p-1022},
      {"pow", {7L, 22L}, 3909821048582988049L},
      {"pow", {7L, 23L}, raises},
      {"pow", {9223372036854775807L, 1L}, 9223372036854775807L},
      {"pow", {kLeast, 1L}, kLeast},
      {"pow", {0x1.ccccccccccccdp-1, 1L}, 0x1.ccccccccccccdp-1},
      {"pow", {0x1.000001ad7f29bp+0, 1099511627776L}, raises},
      {"min", {1L, 2L}, 1L},
      {"min", {2L, 1L}, 1L},
      {"min", {1L, 0x1.0000000000000p+0}, 1L},
      {"min", {0x1.0000000000000p+0, 1L}, 0x1.0000000000000p+0},
      {"min", {true, 1L}, true},
      {"min", {1L, true}, 1L},
      {"min", {0.0, -0.0}, 0.0},
      {"min", {-0.0, 0L}, -0.0},
      {"min", {kNan, 0x1.0000000000000p+0}, kNan},
      {"min", {0x1.0000000000000p+0, kNan}, 0x1.0000000000000p+0},
      {"min", {9007199254740993L, 0x1.0000000000000p+53}, 0x1.0000000000000p+53},
      {"min", {0x1.0000000000000p+53, 9007199254740993L}, 0x1.0000000000000p+53},
      {"min", {9223372036854775807L, 0x1.0000000000000p+63}, 9223372036854775807L},
      {"min", {kLeast, -0x1.0000000000000p+63}, kLeast},
      {"min", {0x1.4000000000000p+1, 2L}, 2L},
      {"min", {-0x1.4000000000000p+1, -3L}, -3L},
      {"min", {-kInf, kLeast}, -kInf},
      {"min", {3L, kInf}, 3L},
      {"max", {1L, 2L}, 2L},
      {"max", {2L, 1L}, 2L},
      {"max", {1L, 0x1.0000000000000p+0}, 1L},
      {"max", {0x1.0000000000000p+0, 1L}, 0x1.0000000000000p+0},
      {"max", {true, 1L}, true},
      {"max", {1L, true}, 1L},
      {"max", {0.0, -0.0}, 0.0},
      {"max", {-0.0, 0L}, -0.0},
      {"max", {kNan, 0x1.0000000000000p+0}, kNan},
      {"max", {0x1.0000000000000p+0, kNan}, 0x1.0000000000000p+0},
      {"max", {9007199254740993L, 0x1.0000000000000p+53}, 9007199254740993L},
      {"max", {0x1.0000000000000p+53, 9007199254740993L}, 9007199254740993L},
      {"max", {9223372036854775807L, 0x1.0000000000000p+63}, 0x1.0000000000000p+63},
      {"max", {0x1.0000000000000p+63, 9223372036854775807L}, 0x1.0000000000000p+63},
      {"max", {kLeast, -0x1.0000000000000p+63}, kLeast},
      {"max", {0x1.4000000000000p+1, 2L}, 0x1.4000000000000p+1},
      {"max", {-0x1.4000000000000p+1, -3L}, -0x1.4000000000000p+1},
      {"max", {kInf, 9223372036854775807L}, kInf},
      {"max", {3L, -kInf}, 3L},
      {"max", {3L, 0x1.c000000000000p+1}, 0x1.c000000000000p+1},
      {"max", {-3L, -0x1.c000000000000p+1}, -3L},
      {"max", {-0x1.c000000000000p+1, -3L}, -3L},
      {"abs", {-3L}, 3L},
      {"abs", {3L}, 3L},
      {"abs", {true}, 1L},
      {"abs", {-0.0}, 0.0},
      {"abs", {-0x1.4000000000000p+1}, 0x1.4000000000000p+1},
      {"abs", {kLeast}, raises},
      {"abs", {-kInf}, kInf},
      {"abs", {kNan}, kNan},
      {"neg", {3L}, -3L},
      {"neg", {true}, -1L},
      {"neg", {false}, 0L},
      {"neg", {0.0}, -0.0},
      {"neg", {0x1.4000000000000p+1}, -0x1.4000000000000p+1},
      {"neg", {kLeast}, raises},
      {"neg", {9223372036854775807L}, -9223372036854775807L},
      {"neg", {kInf}, -kInf},
      {"sqrt", {4L}, 0x1.0000000000000p+1},
      {"sqrt", {0x1.0000000000000p+1}, 0x1.6a09e667f3bcdp+0},
      {"sqrt", {2L}, 0x1.6a09e667f3bcdp+0},
      {"sqrt", {true}, 0x1.0000000000000p+0},
      {"sqrt", {-1L}, raises},
      {"sqrt", {-0.0}, -0.0},
      {"sqrt", {-0x1.56e1fc2f8f359p-997}, raises},
      {"sqrt", {kInf}, kInf},
      {"sqrt", {kNan}, kNan},
      {"sqrt", {9223372036854775807L}, 0x1.6a09e667f3bcdp+31},
      {"sqrt", {0x1.0624dd2f1aa00p-10}, 0x1.030dc4ea03a74p-5},
      {"sqrt", {0L}, 0.0},
      {"float", {3L}, 0x1.8000000000000p+1},
      {"float", {true}, 0x1.0000000000000p+0},
      {"float", {9007199254740993L}, 0x1.0000000000000p+53},
      {"float", {9007199254740995L}, 0x1.0000000000002p+53},
      {"float", {9223372036854775807L}, 0x1.0000000000000p+63},
      {"float", {kLeast}, -0x1.0000000000000p+63},
      {"float", {0x1.999999999999ap-4}, 0x1.999999999999ap-4},
      {"int", {3L}, 3L},
      {"int", {true}, 1L},
      {"int", {0x1.7333333333333p+1}, 2L},
      {"int", {-0x1.7333333333333p+1}, -2L},
      {"int", {-0x1.0000000000000p-1}, 0L},
      {"int", {kNan}, raises},
      {"int", {kInf}, raises},
      {"int", {0x1.158e460913d00p+63}, raises},
      {"int", {0x1.0000000000000p+63}, raises},
      {"int", {-0x1.0000000000000p+63}, kLeast},
      {"int", {0x1.0000000000000p+62}, 4611686018427387904L},
  };
  return kRows;
}
// NOLINTEND(modernize-use-std-numbers)

std::string spell(const Row& row) {
  std::string out(row.op);
  for (const Number& argument : row.arguments) {
    out += fmt::format(" {}", to_text(argument));
  }
  return out;
}

// Of one type and, for floats, of the same bits, but for the sign of a NaN.
bool same(const Number& a, const Number& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return (std::isnan(*x) && std::isnan(*y)) ||
         std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y);
}

TEST(Scalars, ComputeWhatPythonComputes) {
  for (const Row& row : python()) {
    const auto result = compute(fmt::format("scalar::{}", row.op), row.arguments);
    ASSERT_EQ(result.has_value(), row.expected.has_value())
        << spell(row) << ": " << (result ? to_text(*result) : result.error().message);
    const Number expected = row.expected.value_or(false);
    if (result) {
      EXPECT_TRUE(same(*result, expected))
          << spell(row) << ": " << to_text(*result) << ", not " << to_text(expected);
    }
  }
}

TEST(Scalars, KnowEveryOperatorOfTheGraph) {
  for (const ScalarOp& op : scalar_ops()) {
    const std::vector<Number> ones(op.arity, Number(1.0));
    EXPECT_TRUE(compute(op.name, ones)) << op.name;
    const std::vector<Number> more(op.arity + 1, Number(1.0));
    EXPECT_FALSE(compute(op.name, more)) << op.name;
  }
  EXPECT_EQ(compute("scalar::log", std::vector<Number>{1.0}).error().message,
            "there is no host arithmetic scalar::log");
}

TEST(Scalars, SayInPythonsWordsWhatIsWrong) {
  const auto message = [](std::string_view op, std::vector<Number> arguments) {
    return compute(op, arguments).error().message;
  };
  EXPECT_EQ(message("scalar::truediv", {1.0, std::int64_t{0}}), "division by zero");
  EXPECT_EQ(message("scalar::sqrt", {-1.0}), "math domain error");
  EXPECT_EQ(message("scalar::pow", {10.0, 400.0}), "(34, 'Numerical result out of range')");
  EXPECT_EQ(message("scalar::int", {kInf}), "cannot convert float infinity to integer");
  EXPECT_EQ(message("scalar::neg", {kLeast}), "the result does not fit in 64 bits");
}

TEST(Scalars, ConvertToTheDeclaredTypeWhenTheValueAllows) {
  const auto converted = [](const Number& value, DType dtype) {
    const auto result = convert(value, dtype);
    return result ? to_text(*result) : result.error().message;
  };
  EXPECT_EQ(converted(std::int64_t{2}, DType::kF64), "2.0");
  EXPECT_EQ(converted(true, DType::kF64), "1.0");
  EXPECT_EQ(converted(2.0, DType::kI64), "2");
  EXPECT_EQ(converted(true, DType::kI64), "1");
  EXPECT_EQ(converted(2.5, DType::kI64), "2.5 is no i64");
  EXPECT_EQ(converted(0x1p63, DType::kI64), "9.223372036854776e+18 is no i64");
  EXPECT_EQ(converted(-0x1p63, DType::kI64), "-9223372036854775808");
  EXPECT_EQ(converted(kNan, DType::kI64), "nan is no i64");
  EXPECT_EQ(converted(std::int64_t{1}, DType::kBool), "true");
  EXPECT_EQ(converted(0.0, DType::kBool), "false");
  EXPECT_EQ(converted(std::int64_t{2}, DType::kBool), "2 is no bool");
}

TEST(Scalars, ComputeAdamsBiasCorrectionsLineByLine) {
  const auto graph = parse_valid(R"(graph g {
  scalar $lr: f64
  scalar $t: i64
  $power: f64 = scalar::pow(0.999, $t)
  $bias: f64 = scalar::sub(1, $power)
  $root: f64 = scalar::sqrt($bias)
  $size: f64 = scalar::truediv($lr, $root)
  return
}
)");
  ASSERT_TRUE(graph);
  Scalars scalars(*graph);
  scalars.set(graph->find_scalar("lr"), 1e-3);
  scalars.set(graph->find_scalar("t"), std::int64_t{7});
  for (const NodeId node : graph->order()) {
    if (!graph->is_op(node)) continue;
    ASSERT_TRUE(Arithmetic(*graph, node).run(scalars));
  }
  // >>> 1e-3 / math.sqrt(1 - 0.999 ** 7)
  EXPECT_EQ(std::get<double>(scalars[graph->find_scalar("size")]), 0x1.883d8666a58c4p-7);
}

}  // namespace
}  // namespace ebb::exec
