// Reads element types and tensor types: "f32", "f32[32,?] strides [1,32] @host".
#pragma once

#include "ebb/graph/text_cursor.h"
#include "ebb/graph/type.h"

namespace ebb {

bool parse_dtype(TextCursor& cursor, DType& dtype);
// Overwrites `type`, whose vectors serve again from call to call.
bool parse_type(TextCursor& cursor, TensorType& type);

}  // namespace ebb
