// Where we are in a text in protobuf's text format, and its words: names, numbers, quoted strings.
// The first thing that is wrong is kept, with its place; every reading function answers false then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb {

class TextProtoCursor {
 public:
  explicit TextProtoCursor(std::string_view text) : text_(text) {}

  // The functions below skip white space and comments first.
  [[nodiscard]] bool at_end();
  char peek();              // 0 at the end
  bool take(char c);        // whether it stood here
  std::string_view name();  // a letter or _, then also digits; empty when none stands here

  // Whole numbers: 12, 0x1f, 017; a sign where the least is below 0. `what` is for messages.
  bool integer(std::int64_t least, std::int64_t most, std::string_view what, std::int64_t& value);
  bool unsigned_integer(std::uint64_t most, std::string_view what, std::uint64_t& value);
  // 1, -1.5, .5, 1e3, 1.0f, inf, infinity, nan; rounded once, to a double. Too large is infinite.
  bool floating(double& value);
  // Quoted strings one after the other are one. `value` is replaced.
  bool string(std::string& value);

  [[nodiscard]] std::size_t offset() const { return offset_; }  // of the last word's begin
  bool refuse(std::string message) { return refuse_at(offset_, std::move(message)); }
  bool refuse_at(std::size_t offset, std::string message);
  // "'x'", or "the end of the text": what stands here, for messages.
  std::string found();
  [[nodiscard]] bool failed() const { return !error_.message.empty(); }
  [[nodiscard]] Error error() const { return error_; }

 private:
  void skip_space();
  bool take_sign();
  std::string_view number();  // letters, digits, points and the signs of exponents
  bool magnitude(std::uint64_t most, std::string_view what, std::uint64_t& value);
  bool quoted(char quote, std::string& value);
  bool escape(std::string& value);
  bool code_point(std::size_t digits, std::uint32_t& value);
  bool hex_digits(std::size_t least, std::size_t most, std::uint32_t& value);

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t offset_ = 0;
  Error error_;
};

}  // namespace ebb
