// TensorFlow's graphs as text (.pbtxt), in protobuf's text format, to protobuf's binary form.
//
//   Result<std::string> bytes = graphdef_from_text(text);   // of a GraphDef, MetaGraphDef,
//   SavedModel
//
// The bytes are canonical: fields in order of their numbers, numbers packed, defaults left out, as
// protobuf's own serializers write them; entries of maps stay in the text's order. The whole syntax
// is read (comments, `<>` for `{}`, lists, strings in pieces, all escapes, enums as numbers), with
// what it says and protobuf's libraries are lax about taken seriously. Not read: extensions and the
// `[type/url] {...}` form of Any, which need schemas that only their authors have.
//
// Errors (kBadInput) have line and column: unknown fields, with the nearest known one; a field that
// may stand once and stands twice; numbers out of range; more than 100 messages in each other.
// One pass; time and memory linear in the text.
#pragma once

#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/import/tensorflow_schema.h"

namespace ebb {

// Which message it is, by its first field: the three have no field name in common.
[[nodiscard]] Result<TensorFlowKind> kind_of_text(std::string_view text);

[[nodiscard]] Result<std::string> graphdef_from_text(std::string_view text);
[[nodiscard]] Result<std::string> graphdef_from_text(std::string_view text, TensorFlowKind kind);

}  // namespace ebb
