// Which message bytes hold. Protobuf's binary form has no mark of its kind, so the bytes are tried
// as each: fields must have the kinds that the schema says, names must be names, and so on inwards.
#pragma once

#include <string_view>

#include "ebb/base/result.h"
#include "ebb/import/tensorflow_schema.h"

namespace ebb {

// Fails (kBadInput, G01) when they are none of them, or cut off.
[[nodiscard]] Result<TensorFlowKind> kind_of_bytes(std::string_view bytes);

}  // namespace ebb
