// Element types.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ebb {

enum class DType : std::uint8_t {
  kBool,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF8E4M3,
  kF8E5M2,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  // Frameworks' own: no fixed size, never moved.
  kString,
  kResource,
  kVariant,
};

// "f32"; the name in the text form.
std::string_view name(DType dtype);
std::optional<DType> find_dtype(std::string_view name);
// Bytes of one element; 0 when it has no fixed size.
int element_size(DType dtype);
// Whether a runtime scalar may have this type: bool, i64 or f64.
bool is_scalar_dtype(DType dtype);

}  // namespace ebb
