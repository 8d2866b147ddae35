#include "ebb/graph/text_cursor.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace ebb {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word_char(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// -1 when it is no hexadecimal digit. Capitals are not: the text has one spelling.
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void TextCursor::skip_blank_lines() {
  while (true) {
    skip_spaces();
    if (at_ != end_ && *at_ == '#') at_ = std::find(at_, end_, '\n');
    if (at_ != end_ && *at_ == '\r' && peek(1) == '\n') ++at_;
    if (at_ == end_ || *at_ != '\n') return;
    ++at_;
    ++line_;
  }
}

bool TextCursor::take_word(std::string_view word) {
  if (static_cast<std::size_t>(end_ - at_) < word.size() ||
      std::string_view(at_, word.size()) != word) {
    return false;
  }
  const char* after = at_ + word.size();
  if (after != end_ && is_name_char(*after)) return false;
  at_ = after;
  return true;
}

std::string_view TextCursor::take_word_chars() {
  const char* start = at_;
  while (at_ != end_ && is_word_char(*at_)) ++at_;
  return {start, static_cast<std::size_t>(at_ - start)};
}

std::string_view TextCursor::take_number_chars() {
  const char* start = at_;
  if (at_ != end_ && *at_ == '-') ++at_;
  while (at_ != end_) {
    const bool exponent_sign =
        (*at_ == '+' || *at_ == '-') && at_ != start && (at_[-1] == 'e' || at_[-1] == 'E');
    if (!is_word_char(*at_) && *at_ != '.' && !exponent_sign) break;
    ++at_;
  }
  return {start, static_cast<std::size_t>(at_ - start)};
}

bool TextCursor::expect_line_end() {
  skip_spaces();
  if (!at_line_end())
    return error("P04", fmt::format("expected the end of the line, found {}", here()));
  skip_blank_lines();
  return true;
}

bool TextCursor::take_name(std::string_view& name, std::string_view what) {
  const char* start = at_;
  if (at_ != end_ && *at_ == '"') {
    if (!take_quoted(name)) return false;
    return !name.empty() || error_at(start, "P25", "a name is empty");
  }
  while (at_ != end_ && is_name_char(*at_)) ++at_;
  name = {start, static_cast<std::size_t>(at_ - start)};
  return !name.empty() || error("P04", fmt::format("expected {}, found {}", what, here()));
}

bool TextCursor::take_op(std::string_view& op) {
  const char* start = at_;
  if (at_ != end_ && *at_ == '"') {
    if (!take_quoted(op)) return false;
    return !op.empty() || error_at(start, "P25", "an operator's name is empty");
  }
  while (at_ != end_ && is_op_char(*at_)) ++at_;
  op = {start, static_cast<std::size_t>(at_ - start)};
  return !op.empty() ||
         error("P04", fmt::format("expected an operator like aten::relu, found {}", here()));
}

bool TextCursor::take_quoted(std::string_view& text) {
  const char* start = at_;
  ++at_;
  const char* plain = at_;
  while (at_ != end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= 0x20) {
    ++at_;
  }
  if (at_ != end_ && *at_ == '"') {  // nothing to unescape: a piece of the text itself
    text = {plain, static_cast<std::size_t>(at_ - plain)};
    ++at_;
    return true;
  }
  unescaped_.assign(plain, at_);
  while (true) {
    if (at_ == end_ || *at_ == '\n') {
      return error_at(start, "P26", "the string that begins here has no closing '\"' on its line");
    }
    const char c = *at_++;
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) {
      return error_at(at_ - 1, "P26",
                      "a control character in a string; write it as \\n, \\t or \\x..");
    }
    if (c != '\\') {
      unescaped_ += c;
      continue;
    }
    const char escape = at_ == end_ ? '\0' : *at_++;
    if (escape == '"' || escape == '\\') {
      unescaped_ += escape;
    } else if (escape == 'n') {
      unescaped_ += '\n';
    } else if (escape == 't') {
      unescaped_ += '\t';
    } else if (escape == 'x' && hex_digit(peek()) >= 0 && hex_digit(peek(1)) >= 0 &&
               hex_digit(peek()) < 8) {
      unescaped_ += static_cast<char>(hex_digit(peek()) * 16 + hex_digit(peek(1)));
      at_ += 2;
    } else {
      return error_at(at_ - 1, "P26",
                      "no such escape; there are \\\" \\\\ \\n \\t and \\x00 to \\x7f");
    }
  }
  text = unescaped_;
  return true;
}

bool TextCursor::take_hex(std::string& bytes) {
  const char* start = at_;
  ++at_;
  while (hex_digit(peek()) >= 0 && hex_digit(peek(1)) >= 0) {
    bytes += static_cast<char>(hex_digit(peek()) * 16 + hex_digit(peek(1)));
    at_ += 2;
  }
  return take('"') ||
         error_at(start, "P26", "bytes are written hex\"0aff\": pairs of the digits 0-9 and a-f");
}

bool TextCursor::take_natural(std::int64_t& number, std::string_view what) {
  const char* start = at_;
  while (at_ != end_ && is_digit(*at_)) ++at_;
  if (at_ == start) {
    if (peek() == '-') return error("P13", fmt::format("{} is not negative", what));
    return error("P04", fmt::format("expected {}, found {}", what, here()));
  }
  const auto [rest, problem] = std::from_chars(start, at_, number);
  return problem == std::errc() ||
         error_at(
             start, "P13",
             fmt::format("{} does not fit in 63 bits",
                         std::string_view(start, static_cast<std::size_t>(
                                                     std::min<std::ptrdiff_t>(at_ - start, 24)))));
}

bool TextCursor::expected(char c) {
  return error("P04", fmt::format("expected '{}', found {}", c, here()));
}

std::string TextCursor::describe(const char* at) const {
  constexpr std::ptrdiff_t kShown = 24;
  if (at == end_) return "the end of the text";
  const bool crlf = *at == '\r' && at + 1 != end_ && at[1] == '\n';
  if (*at == '\n' || *at == '#' || crlf) return "the end of the line";
  const char* stop = at;
  while (stop != end_ && stop - at < kShown && is_op_char(*stop)) ++stop;
  if (stop == at) {
    // One character, which may be several bytes.
    ++stop;
    while (stop != end_ && (static_cast<unsigned char>(*stop) & 0xC0U) == 0x80) ++stop;
    if (static_cast<unsigned char>(*at) < 0x20) {
      return fmt::format("a control character (\\x{:02x})", static_cast<unsigned char>(*at));
    }
  }
  return fmt::format("'{}'", std::string_view(at, static_cast<std::size_t>(stop - at)));
}

bool TextCursor::error_at(const char* at, std::string_view code, std::string message) {
  if (!error_.message.empty()) return false;
  Place place;
  if (at != nullptr) {
    const char* line_begin = begin_;
    place.line = 1;
    for (const char* p = begin_; p != at; ++p) {
      if (*p == '\n') {
        ++place.line;
        line_begin = p + 1;
      }
    }
    place.column =
        1 + static_cast<int>(std::count_if(line_begin, at, [](char c) {
          return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // code points, not bytes
        }));
  }
  error_ = Error{.kind = ErrorKind::kBadInput,
                 .code = std::string(code),
                 .message = std::move(message),
                 .place = place};
  return false;
}

}  // namespace ebb
