#include "ebb/torch/dtype.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ebb::torch {
namespace {

constexpr std::array kTypes = {
    std::pair{DType::kBool, c10::ScalarType::Bool},
    std::pair{DType::kI8, c10::ScalarType::Char},
    std::pair{DType::kI16, c10::ScalarType::Short},
    std::pair{DType::kI32, c10::ScalarType::Int},
    std::pair{DType::kI64, c10::ScalarType::Long},
    std::pair{DType::kU8, c10::ScalarType::Byte},
    std::pair{DType::kU16, c10::ScalarType::UInt16},
    std::pair{DType::kU32, c10::ScalarType::UInt32},
    std::pair{DType::kU64, c10::ScalarType::UInt64},
    std::pair{DType::kF8E4M3, c10::ScalarType::Float8_e4m3fn},
    std::pair{DType::kF8E5M2, c10::ScalarType::Float8_e5m2},
    std::pair{DType::kF16, c10::ScalarType::Half},
    std::pair{DType::kBF16, c10::ScalarType::BFloat16},
    std::pair{DType::kF32, c10::ScalarType::Float},
    std::pair{DType::kF64, c10::ScalarType::Double},
    std::pair{DType::kC64, c10::ScalarType::ComplexFloat},
    std::pair{DType::kC128, c10::ScalarType::ComplexDouble},
};

}  // namespace

std::optional<c10::ScalarType> to_torch(DType dtype) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const auto& pair) { return pair.first == dtype; });
  if (found == kTypes.end()) return std::nullopt;
  return found->second;
}

std::optional<DType> from_torch(c10::ScalarType type) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const auto& pair) { return pair.second == type; });
  if (found == kTypes.end()) return std::nullopt;
  return found->first;
}

}  // namespace ebb::torch
