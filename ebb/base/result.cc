#include "ebb/base/result.h"

#include <fmt/format.h>

namespace ebb {
namespace {

// A message stays on one line whatever names it quotes.
void append_printable(std::string& out, std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const bool is_c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (is_c1) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[++i]));
    } else {
      out += c;
    }
  }
}

// The beginning of a text that goes on for pages, cut between characters.
std::string_view shortened(std::string_view text) {
  constexpr std::size_t kLongest = 1000;
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest;
  while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  append_printable(out, text);
  return out;
}

std::string Error::render(std::string_view file) const {
  std::string out;
  append_printable(out, file);
  if (place.line > 0) out += fmt::format(":{}", place.line);
  if (place.column > 0) out += fmt::format(":{}", place.column);
  if (!out.empty()) out += ": ";
  if (!code.empty()) out += fmt::format("{}: ", code);
  append_printable(out, shortened(message));
  if (shortened(message).size() < message.size()) out += " ...";
  return out;
}

}  // namespace ebb
