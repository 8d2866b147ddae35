#include "ebb/graph/parse_literal.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace ebb {
namespace {

bool parse_number(TextCursor& cursor, Value& value) {
  const char* at = cursor.position();
  const std::string_view token = cursor.take_number_chars();
  const char* begin = token.data();
  const char* end = begin + token.size();
  const bool is_float = token.find_first_of(".eEif") != std::string_view::npos;
  if (!is_float) {
    std::int64_t number = 0;
    const auto [rest, problem] = std::from_chars(begin, end, number);
    if (problem == std::errc() && rest == end) {
      value = number;
      return true;
    }
    if (problem == std::errc::result_out_of_range) {
      return cursor.error_at(
          at, "P17",
          fmt::format("{} does not fit in 64 bits; write it as a float, {}.0", token, token));
    }
  } else {
    double number = 0;
    const auto [rest, problem] = std::from_chars(begin, end, number);
    if (problem == std::errc() && rest == end) {
      value = number;
      return true;
    }
    if (problem == std::errc::result_out_of_range) {
      return cursor.error_at(at, "P17", fmt::format("{} is out of the range of f64", token));
    }
  }
  return cursor.error_at(at, "P17", fmt::format("'{}' is no number", token));
}

bool parse_word(TextCursor& cursor, GraphEdit& edit, Value& value) {
  const char* at = cursor.position();
  const std::string_view word = cursor.take_word_chars();
  if (word == "true" || word == "false") {
    value = (word == "true");
  } else if (word == "none") {
    value = std::monostate();
  } else if (word == "inf") {
    value = std::numeric_limits<double>::infinity();
  } else if (word == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (word == "hex" && cursor.peek() == '"') {
    std::string bytes;
    if (!cursor.take_hex(bytes)) return false;
    value = Blob{edit.intern(bytes)};
  } else if (const auto dtype = find_dtype(word)) {
    value = *dtype;
  } else {
    return cursor.error_at(
        at, "P18",
        word.empty() ? fmt::format("expected a value, found {}", cursor.here())
                     : fmt::format("'{}' is no value; a string is quoted: \"{}\"", word, word));
  }
  return true;
}

}  // namespace

bool parse_literal(TextCursor& cursor, GraphEdit& edit, Value& value) {
  const char c = cursor.peek();
  if (c == '"') {
    std::string_view text;
    if (!cursor.take_quoted(text)) return false;
    value = Text{edit.intern(text)};
    return true;
  }
  if (c == '-' || (c >= '0' && c <= '9')) return parse_number(cursor, value);
  return parse_word(cursor, edit, value);
}

}  // namespace ebb
