// TensorFlow's element types in ours. The numbers are those of its DataType; those of references
// (`VariableV2`) are 100 higher.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ebb/graph/dtype.h"

namespace ebb {

inline constexpr int kFirstReference = 100;

// References are handles (docs/decisions, 11). What we have no type for is a variant: never moved.
DType dtype_of_tensorflow(int number);
// The number of "float", "int32", ...
std::optional<int> find_tensorflow_type(std::string_view name);
// The other way, for types that stand for exactly one of TensorFlow's.
std::optional<int> tensorflow_type_of(DType dtype);

}  // namespace ebb
