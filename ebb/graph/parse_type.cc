#include "ebb/graph/parse_type.h"

#include <fmt/format.h>

#include "ebb/base/nearest.h"

namespace ebb {
namespace {

// "32,784]"; '?' too where a dimension may be unknown.
bool parse_dims(TextCursor& cursor, std::vector<std::int64_t>& dims, bool unknown_allowed) {
  cursor.skip_spaces();
  if (cursor.take(']')) return true;
  while (true) {
    cursor.skip_spaces();
    std::int64_t dim = TensorType::kUnknownDim;
    if (!(unknown_allowed && cursor.take('?'))) {
      if (!cursor.take_natural(
              dim, unknown_allowed ? "a dimension (a number, or ?)" : "a stride (a number)")) {
        return false;
      }
    }
    dims.push_back(dim);
    cursor.skip_spaces();
    if (cursor.take(']')) return true;
    if (!cursor.take(',')) {
      return cursor.error("P04", fmt::format("expected ',' or ']', found {}", cursor.here()));
    }
  }
}

}  // namespace

bool parse_dtype(TextCursor& cursor, DType& dtype) {
  const char* at = cursor.position();
  const std::string_view word = cursor.take_word_chars();
  if (const auto found = find_dtype(word)) {
    dtype = *found;
    return true;
  }
  if (word.empty()) {
    return cursor.error_at(
        at, "P04", fmt::format("expected a type like f32[32,784], found {}", cursor.here()));
  }
  NearestWord nearest(word);
  for (int i = 0; i <= static_cast<int>(DType::kVariant); ++i) {
    nearest.offer(ebb::name(static_cast<DType>(i)));
  }
  return cursor.error_at(
      at, "P12",
      nearest.word().empty()
          ? fmt::format("'{}' is no element type; f32, bf16, i64 and bool are some", word)
          : fmt::format("'{}' is no element type; did you mean {}?", word, nearest.word()));
}

bool parse_type(TextCursor& cursor, TensorType& type) {
  cursor.skip_spaces();
  const char* at = cursor.position();
  type.dims.clear();
  type.strides.clear();
  type.ranked = true;
  type.residence = Residence::kDevice;
  if (!parse_dtype(cursor, type.dtype) || !cursor.expect('[')) return false;
  if (cursor.take('*')) {
    type.ranked = false;
    if (!cursor.expect(']')) return false;
  } else if (!parse_dims(cursor, type.dims, true)) {
    return false;
  }
  cursor.skip_spaces();
  if (cursor.take_word("strides")) {
    if (!cursor.expect('[') || !parse_dims(cursor, type.strides, false)) return false;
    if (type.strides.empty() && !type.dims.empty()) {
      return cursor.error_at(at, "P13",
                             fmt::format("the type has 0 strides for {} dimensions; leave "
                                         "'strides' out when it is row-major",
                                         type.dims.size()));
    }
    cursor.skip_spaces();
  }
  if (cursor.peek() == '@' && cursor.peek(1) != '"') {
    const char* side_at = cursor.position();
    cursor.take('@');
    if (cursor.take_word_chars() != "host") {
      return cursor.error_at(side_at, "P14",
                             "only '@host' stands bare; a device is quoted, as @\"cuda:1\"");
    }
    type.residence = Residence::kHost;
  }
  if (const auto wrong = defect(type)) {
    return cursor.error_at(at, "P13", fmt::format("the type {}", *wrong));
  }
  return true;
}

}  // namespace ebb
