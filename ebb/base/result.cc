#include "ebb/base/result.h"

#include <fmt/format.h>

namespace ebb {
namespace {

// A message stays on one line whatever names it quotes.
void append_printable(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
}

}  // namespace

std::string Error::render(std::string_view file) const {
  std::string out;
  append_printable(out, file);
  if (place.line > 0) out += fmt::format(":{}", place.line);
  if (place.column > 0) out += fmt::format(":{}", place.column);
  if (!out.empty()) out += ": ";
  if (!code.empty()) out += fmt::format("{}: ", code);
  append_printable(out, message);
  return out;
}

}  // namespace ebb
