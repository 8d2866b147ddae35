#include "returned.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ebb::tool {
namespace {

template <class Element, class Number>
ReturnedNumber load(const std::byte* place) {
  Element element{};
  std::memcpy(&element, place, sizeof element);
  return static_cast<Number>(element);
}

}  // namespace

std::optional<ReturnedNumber> returned_number(const torch::Step& step, TensorId tensor) {
  const TensorType& type = step.graph().type(tensor);
  if (!std::ranges::all_of(type.dims, [](std::int64_t dim) { return dim == 1; })) {
    return std::nullopt;
  }
  std::array<std::byte, 16> bytes{};
  const std::size_t size = static_cast<std::size_t>(extent(type).value_or(Bytes{}).count);
  if (size > bytes.size() || !step.read(tensor, std::span(bytes).first(size))) return std::nullopt;
  const std::byte* place = bytes.data();
  switch (type.dtype) {
    case DType::kBool:
      return load<bool, bool>(place);
    case DType::kI8:
      return load<std::int8_t, std::int64_t>(place);
    case DType::kI16:
      return load<std::int16_t, std::int64_t>(place);
    case DType::kI32:
      return load<std::int32_t, std::int64_t>(place);
    case DType::kI64:
      return load<std::int64_t, std::int64_t>(place);
    case DType::kU8:
      return load<std::uint8_t, std::uint64_t>(place);
    case DType::kU16:
      return load<std::uint16_t, std::uint64_t>(place);
    case DType::kU32:
      return load<std::uint32_t, std::uint64_t>(place);
    case DType::kU64:
      return load<std::uint64_t, std::uint64_t>(place);
    case DType::kF8E4M3:
      return load<c10::Float8_e4m3fn, float>(place);
    case DType::kF8E5M2:
      return load<c10::Float8_e5m2, float>(place);
    case DType::kF16:
      return load<c10::Half, float>(place);
    case DType::kBF16:
      return load<c10::BFloat16, float>(place);
    case DType::kF32:
      return load<float, float>(place);
    case DType::kF64:
      return load<double, double>(place);
    default:
      return std::nullopt;
  }
}

std::string to_text(const ReturnedNumber& number) {
  return std::visit(
      [](auto value) {
        if constexpr (std::is_floating_point_v<decltype(value)>) {
          return std::isnan(value) ? std::string("nan") : fmt::format("{:#}", value);
        } else {
          return fmt::format("{}", value);
        }
      },
      number);
}

nlohmann::ordered_json to_json(const ReturnedNumber& number) {
  return std::visit(
      [&](auto value) -> nlohmann::ordered_json {
        if constexpr (std::is_floating_point_v<decltype(value)>) {
          if (!std::isfinite(value)) return to_text(number);
          return static_cast<double>(value);
        } else {
          return value;
        }
      },
      number);
}

}  // namespace ebb::tool
