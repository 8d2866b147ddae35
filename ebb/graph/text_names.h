// How names and strings are spelled in the text form: which may stand bare, and how the others are
// quoted. Parser and printer agree here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ebb {

// Which characters may stand where; a table, because readers look at every character of a text.
class CharClasses {
 public:
  // Of a bare name: letters, digits and _ . / -
  static constexpr bool is_name(char c) { return (class_of(c) & kName) != 0; }
  // Of a bare operator: those and ':', as in aten::add.Tensor
  static constexpr bool is_op(char c) { return (class_of(c) & kOp) != 0; }

 private:
  static constexpr std::uint8_t kName = 1;
  static constexpr std::uint8_t kOp = 2;
  static constexpr std::uint8_t class_of(char c) { return kTable[static_cast<unsigned char>(c)]; }
  static constexpr std::array<std::uint8_t, 256> kTable = [] {
    std::array<std::uint8_t, 256> table{};
    for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                         "0123456789_./-")) {
      table[static_cast<unsigned char>(c)] = kName | kOp;
    }
    table[':'] = kOp;
    return table;
  }();
};

constexpr bool is_name_char(char c) { return CharClasses::is_name(c); }
constexpr bool is_op_char(char c) { return CharClasses::is_op(c); }

inline constexpr std::array<std::string_view, 7> kLineKeywords = {
    "input", "param", "const", "scalar", "frame", "branch", "return"};
// Whether a line that begins with this word is something else than a labelled operation.
bool is_line_keyword(std::string_view word);

// Append the name as the text form spells it: bare, or in quotes.
void append_name(std::string& out, std::string_view name);
void append_label(std::string& out, std::string_view name);  // also quotes keywords
void append_op(std::string& out, std::string_view op);
void append_quoted(std::string& out, std::string_view text);

// The same as values, for messages.
std::string spelled(std::string_view name);

}  // namespace ebb
