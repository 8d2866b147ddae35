// The type of a tensor: element type, shape, strides, and on which side of the link it lives.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/graph/dtype.h"

namespace ebb {

enum class Residence : std::uint8_t { kDevice, kHost };

struct TensorType {
  static constexpr std::int64_t kUnknownDim = -1;

  DType dtype = DType::kF32;
  Residence residence = Residence::kDevice;
  bool ranked = true;                 // false: not even the number of dimensions is known
  std::vector<std::int64_t> dims;     // each >= 0, or kUnknownDim
  std::vector<std::int64_t> strides;  // in elements, each >= 0; empty when row-major

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

inline TensorType tensor_type(DType dtype, std::vector<std::int64_t> dims) {
  return TensorType{.dtype = dtype, .dims = std::move(dims), .strides = {}};
}
inline TensorType f32(std::vector<std::int64_t> dims) {
  return tensor_type(DType::kF32, std::move(dims));
}
TensorType on_host(TensorType type);

// The strides of a row-major tensor of these (known) dimensions.
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& dims);

// The bytes from the first element to the last, gaps included. nullopt when a dimension, the rank
// or the element size is unknown. The type must not be too large.
std::optional<Bytes> extent(const TensorType& type);

// Whether some bytes between the first element and the last may belong to none. Copies have the
// elements, and not what lies between them.
bool may_have_gaps(const TensorType& type);

// Whether the extent does not fit in 63 bits. Unknown dimensions count as one.
bool is_too_large(const TensorType& type);

// What is wrong with the type in itself ("has 2 strides for 3 dimensions"), or nothing.
std::optional<std::string> defect(const TensorType& type);

// "f32[32,?] strides [1,32] @host".
void append_type(std::string& out, const TensorType& type);
std::string to_text(const TensorType& type);

}  // namespace ebb
