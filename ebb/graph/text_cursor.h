// A place in a text that moves forward over tokens: what readers of Ebb's line-based texts share.
//
// Functions that return bool say whether they found what they describe and moved over it. `take`
// and `take_word` leave the cursor and stay silent when they did not; `expect` and the others with
// a `what` record an error, which names the place, and the first one recorded is the one kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/graph/text_names.h"

namespace ebb {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text)
      : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  [[nodiscard]] bool at_end() const { return at_ == end_; }
  [[nodiscard]] bool at_line_end() const {
    return at_ == end_ || *at_ == '\n' || *at_ == '#' || (*at_ == '\r' && peek(1) == '\n');
  }
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] const char* position() const { return at_; }
  [[nodiscard]] char peek(std::ptrdiff_t ahead = 0) const {
    return end_ - at_ > ahead ? at_[ahead] : '\0';
  }
  [[nodiscard]] bool is_in_text(std::string_view part) const {
    return part.data() >= begin_ && part.data() <= end_;
  }

  void skip_spaces() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
  }
  // Over empty lines and comments to the first character of the next line that has one.
  void skip_blank_lines();

  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  // The word, where no longer name stands.
  bool take_word(std::string_view word);
  // Letters, digits and '_'; may be empty.
  std::string_view take_word_chars();
  // A number with its sign, exponent and unit, right or wrong; may be empty.
  std::string_view take_number_chars();

  // After spaces.
  bool expect(char c) {
    skip_spaces();
    return take(c) || expected(c);
  }
  bool expect_line_end();

  // A bare or quoted name. A quoted one with escapes lies in a buffer until the next such name.
  bool take_name(std::string_view& name, std::string_view what);
  bool take_op(std::string_view& op);
  bool take_quoted(std::string_view& text);
  bool take_hex(std::string& bytes);  // "0aff"
  bool take_natural(std::int64_t& number, std::string_view what);

  // Records an error, and returns false.
  bool error(std::string_view code, std::string message) {
    return error_at(at_, code, std::move(message));
  }
  bool error_at(const char* at, std::string_view code, std::string message);
  // What stands at a place, for messages.
  [[nodiscard]] std::string describe(const char* at) const;
  [[nodiscard]] std::string here() const { return describe(at_); }
  Error take_error() { return std::move(error_); }

 private:
  bool expected(char c);

  const char* begin_;
  const char* at_;
  const char* end_;
  int line_ = 1;
  std::string unescaped_;
  Error error_;
};

}  // namespace ebb
