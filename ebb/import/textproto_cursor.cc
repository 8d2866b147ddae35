#include "ebb/import/textproto_cursor.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "ebb/base/utf8.h"

namespace ebb {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string lower(std::string_view word) {
  std::string out(word);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Whether a number that no double holds is too large rather than too small. It is made of digits, a
// point and an exponent; the digits' first that is not 0 decides together with the exponent.
bool is_too_large(std::string_view number) {
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.find_first_of("123456789");
  if (e == number.size()) return first < point;
  std::string_view exponent = number.substr(e + 1);
  if (exponent.starts_with('-')) return false;
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  if (first < point) return true;
  std::size_t power = 0;
  const auto read = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
  return read.ec != std::errc() || power > first - point;
}

// Nothing when it is no number.
std::optional<double> as_double(std::string_view word) {
  if (word.size() > 1 && word[0] == '0' && is_digit(word[1]))
    return std::nullopt;  // octal, or a slip
  if (word.ends_with('f') || word.ends_with('F')) word.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc::invalid_argument || end != word.data() + word.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    return is_too_large(word) ? std::numeric_limits<double>::infinity() : 0.0;
  }
  return value;
}

void append_utf8(std::string& out, std::uint32_t c) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | (c >> shift & 0x3FU)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0U | c >> 6U);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0U | c >> 12U);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0U | c >> 18U);
    tail(12);
    tail(6);
    tail(0);
  }
}

// Counted in characters, as editors do.
Place place_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 when there is none
  Place place{.line = 1, .column = 1};
  place.line += static_cast<int>(std::ranges::count(before, '\n'));
  place.column += static_cast<int>(std::ranges::count_if(before.substr(line_begin), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
  return place;
}

}  // namespace

void TextProtoCursor::skip_space() {
  while (at_ < text_.size()) {
    if (is_space(text_[at_])) {
      ++at_;
    } else if (text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      break;
    }
  }
  offset_ = at_;
}

bool TextProtoCursor::at_end() {
  skip_space();
  return at_ == text_.size();
}

char TextProtoCursor::peek() { return at_end() ? '\0' : text_[at_]; }

bool TextProtoCursor::take(char c) {
  if (at_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

std::string_view TextProtoCursor::name() {
  if (at_end() || !is_letter(text_[at_])) return {};
  while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
  return text_.substr(offset_, at_ - offset_);
}

bool TextProtoCursor::take_sign() {
  if (!take('-')) return false;
  const std::size_t begin = offset_;
  skip_space();
  offset_ = begin;
  return true;
}

std::string_view TextProtoCursor::number() {
  const std::size_t begin = at_;
  const auto goes_on = [&](char c) {
    if (is_letter(c) || is_digit(c) || c == '.') return true;
    const bool is_exponent = at_ > begin && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
    return is_exponent && (c == '-' || c == '+');
  };
  while (at_ < text_.size() && goes_on(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

bool TextProtoCursor::magnitude(std::uint64_t most, std::string_view what, std::uint64_t& value) {
  const std::size_t begin = at_;
  const std::string_view word = number();
  std::string_view digits = word;
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
  }
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size()) {
    if (word.empty()) {
      at_ = begin;
      return refuse(fmt::format("{} where a whole number should stand", found()));
    }
    return refuse(fmt::format("'{}' is no whole number", word.substr(0, 40)));
  }
  if (error == std::errc::result_out_of_range || value > most) {
    return refuse(fmt::format("{} is out of the range of {}",
                              text_.substr(offset_, std::min<std::size_t>(at_ - offset_, 40)),
                              what));
  }
  return true;
}

bool TextProtoCursor::integer(std::int64_t least, std::int64_t most, std::string_view what,
                              std::int64_t& value) {
  skip_space();
  const bool is_negative = take_sign();
  const std::uint64_t limit =
      is_negative ? 0 - static_cast<std::uint64_t>(least) : static_cast<std::uint64_t>(most);
  std::uint64_t size = 0;
  if (!magnitude(limit, what, size)) return false;
  value = static_cast<std::int64_t>(is_negative ? 0 - size : size);
  return true;
}

bool TextProtoCursor::unsigned_integer(std::uint64_t most, std::string_view what,
                                       std::uint64_t& value) {
  if (peek() == '-') return refuse(fmt::format("a number below 0 is out of the range of {}", what));
  return magnitude(most, what, value);
}

bool TextProtoCursor::floating(double& value) {
  skip_space();
  const bool is_negative = take_sign();
  const std::size_t begin = at_;
  const std::string_view word = number();
  std::optional<double> found_value;
  if (!word.empty() && is_letter(word[0])) {
    const std::string spelled = lower(word);
    if (spelled == "inf" || spelled == "infinity") {
      found_value = std::numeric_limits<double>::infinity();
    } else if (spelled == "nan") {
      found_value = std::numeric_limits<double>::quiet_NaN();
    }
  } else if (!word.empty()) {
    found_value = as_double(word);
  }
  if (!found_value) {
    if (!word.empty()) return refuse(fmt::format("'{}' is no number", word.substr(0, 40)));
    at_ = begin;
    return refuse(fmt::format("{} where a number should stand", found()));
  }
  value = is_negative ? -*found_value : *found_value;
  return true;
}

bool TextProtoCursor::string(std::string& value) {
  value.clear();
  const char first = peek();
  if (first != '"' && first != '\'') {
    return refuse(fmt::format("{} where a quoted string should stand", found()));
  }
  const std::size_t begin = offset_;
  for (char quote = first; quote == '"' || quote == '\''; quote = peek()) {
    ++at_;
    if (!quoted(quote, value)) return false;
  }
  offset_ = begin;
  return true;
}

bool TextProtoCursor::quoted(char quote, std::string& value) {
  const std::size_t begin = offset_;
  while (true) {
    const std::size_t plain = at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\\' && text_[at_] != '\n') {
      ++at_;
    }
    value.append(text_, plain, at_ - plain);
    if (at_ == text_.size() || text_[at_] == '\n') {
      return refuse_at(begin, "the string that begins here has no end on its line");
    }
    if (text_[at_++] == quote) return true;
    if (!escape(value)) return false;
  }
}

// What follows a backslash.
bool TextProtoCursor::escape(std::string& value) {
  static constexpr std::string_view kLetters = "abfnrtv\\'\"?";
  static constexpr std::string_view kMeant = "\a\b\f\n\r\t\v\\'\"?";
  const std::size_t begin = at_ - 1;
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  if (const std::size_t i = kLetters.find(c); i != std::string_view::npos) {
    value += kMeant[i];
    ++at_;
    return true;
  }
  std::uint32_t number = 0;
  if (c >= '0' && c <= '7') {
    for (int i = 0; i < 3 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
      number = number * 8 + static_cast<std::uint32_t>(text_[at_++] - '0');
    }
    if (number > 0xFF) return refuse_at(begin, "an octal escape above \\377 is no byte");
    value += static_cast<char>(number);
    return true;
  }
  ++at_;
  bool is_right = false;
  if (c == 'x' || c == 'X') {
    is_right = hex_digits(1, 2, number);
    value += static_cast<char>(number);
  } else if (c == 'u' || c == 'U') {
    is_right = code_point(c == 'u' ? 4 : 8, number);
    if (is_right) append_utf8(value, number);
  }
  return is_right || refuse_at(begin,
                               "an escape in a string that means nothing; write a backslash "
                               "itself as \\\\");
}

bool TextProtoCursor::hex_digits(std::size_t least, std::size_t most, std::uint32_t& value) {
  std::size_t end = at_;
  while (end < text_.size() && end - at_ < most &&
         std::isxdigit(static_cast<unsigned char>(text_[end])) != 0) {
    ++end;
  }
  if (end - at_ < least) return false;
  std::from_chars(text_.data() + at_, text_.data() + end, value, 16);
  at_ = end;
  return true;
}

// A pair of surrogates, each an escape of its own, is one character.
bool TextProtoCursor::code_point(std::size_t digits, std::uint32_t& value) {
  if (!hex_digits(digits, digits, value)) return false;
  if (value >= 0xD800 && value < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
    at_ += 2;
    std::uint32_t low = 0;
    if (!hex_digits(4, 4, low) || low < 0xDC00 || low > 0xDFFF) return false;
    value = 0x10000 + ((value - 0xD800) << 10U) + (low - 0xDC00);
  }
  return value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
}

bool TextProtoCursor::refuse_at(std::size_t offset, std::string message) {
  if (failed()) return false;
  error_ = Error{.kind = ErrorKind::kBadInput,
                 .code = {},
                 .message = std::move(message),
                 .place = place_of(text_, offset)};
  return false;
}

std::string TextProtoCursor::found() {
  if (at_end()) return "the end of the text";
  std::string_view word = text_.substr(at_, 40);
  word = word.substr(0, std::min(word.find_first_of(" \t\r\n"), word.size()));
  word = word.substr(0, first_invalid_utf8(word));  // a character that was cut, or no text at all
  if (word.empty()) return "a byte that is no text";
  return fmt::format("'{}'", word);
}

}  // namespace ebb
