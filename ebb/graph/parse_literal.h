// Reads one literal attribute value: true, 3, 1e-05, -inf, nan, "text", hex"0aff", bf16 or none.
#pragma once

#include "ebb/graph/edit.h"
#include "ebb/graph/text_cursor.h"

namespace ebb {

bool parse_literal(TextCursor& cursor, GraphEdit& edit, Value& value);

}  // namespace ebb
