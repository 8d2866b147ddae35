// How names and strings are spelled in the text form: which may stand bare, and how the others are
// quoted. Parser and printer agree here.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace ebb {

// Characters of a bare name: letters, digits and _ . / -
bool is_name_char(char c);
// Characters of a bare operator: those and ':', as in aten::add.Tensor
bool is_op_char(char c);

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
