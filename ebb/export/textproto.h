// TensorFlow's graphs from protobuf's binary form to its text format (.pbtxt).
//
//   Result<std::string> text = graphdef_to_text(bytes, TensorFlowKind::kGraphDef);
//
// The text is the one that google.protobuf.text_format.MessageToString writes: fields in order of
// their numbers, entries of maps by key, floats as short as they can be told apart. The one
// difference is an Any whose type Python knows: here it is written as type_url and value.
//
// Errors (kBadInput) name the place, "node[3].attr[1].value": bytes that are cut off or no
// protobuf (G01), texts that are not UTF-8, and fields that have no name, because the file was
// written by a newer TensorFlow or is of another kind. Text has no way to keep those, so they are
// not dropped in silence. One pass; time and memory linear in the bytes, but for the sorting of
// maps.
#pragma once

#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/import/tensorflow_schema.h"

namespace ebb {

[[nodiscard]] Result<std::string> graphdef_to_text(std::string_view bytes, TensorFlowKind kind);

}  // namespace ebb
