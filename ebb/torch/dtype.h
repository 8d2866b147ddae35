// Element types here and in PyTorch.
#pragma once

#include <optional>

#include <c10/core/ScalarType.h>

#include "ebb/graph/dtype.h"

namespace ebb::torch {

// Nothing for the frameworks' own: strings, resources, variants.
std::optional<c10::ScalarType> to_torch(DType dtype);
std::optional<DType> from_torch(c10::ScalarType type);

}  // namespace ebb::torch
