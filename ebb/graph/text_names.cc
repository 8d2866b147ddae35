#include "ebb/graph/text_names.h"

#include <algorithm>

namespace ebb {
namespace {

bool all_of(std::string_view text, bool (*is_good)(char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_good);
}

}  // namespace

bool is_line_keyword(std::string_view word) {
  return std::find(kLineKeywords.begin(), kLineKeywords.end(), word) != kLineKeywords.end();
}

void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte < 0x20 || byte == 0x7F) {
          out += "\\x";
          out += kHex[byte >> 4U];
          out += kHex[byte & 0xFU];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void append_name(std::string& out, std::string_view name) {
  if (all_of(name, is_name_char)) {
    out += name;
  } else {
    append_quoted(out, name);
  }
}

void append_label(std::string& out, std::string_view name) {
  if (is_line_keyword(name)) {
    append_quoted(out, name);
  } else {
    append_name(out, name);
  }
}

void append_op(std::string& out, std::string_view op) {
  if (all_of(op, is_op_char)) {
    out += op;
  } else {
    append_quoted(out, op);
  }
}

std::string spelled(std::string_view name) {
  std::string out;
  append_name(out, name);
  return out;
}

}  // namespace ebb
