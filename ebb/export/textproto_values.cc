#include "ebb/export/textproto_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "ebb/base/check.h"

namespace ebb {
namespace {

using NumberBuffer = std::array<char, 40>;  // more than any double in scientific notation needs

// From "-1.25e+07" to Python's layout. Numbers of up to 16 digits before the point are written out.
void append_python(std::string& out, std::string_view scientific) {
  if (scientific.starts_with('-')) {
    out += '-';
    scientific.remove_prefix(1);
  }
  const std::size_t e = scientific.find('e');
  EBB_CHECK(e != std::string_view::npos, "'{}' has no exponent", scientific);
  NumberBuffer digits{};
  std::size_t count = 0;
  for (const char c : scientific.substr(0, e)) {
    if (c != '.') digits[count++] = c;
  }
  while (count > 1 && digits[count - 1] == '0') --count;
  const std::string_view all(digits.data(), count);

  std::string_view exponent_text = scientific.substr(e + 1);
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  int exponent = 0;
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);

  if (exponent < -4 || exponent >= 16) {
    out += all[0];
    if (count > 1) (out += '.') += all.substr(1);
    out += exponent < 0 ? "e-" : "e+";
    const int size = std::abs(exponent);
    if (size < 10) out += '0';
    out += std::to_string(size);
  } else if (exponent < 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    out += all;
  } else {
    const auto before_point = static_cast<std::size_t>(exponent) + 1;
    out += all.substr(0, before_point);
    if (before_point > count) out.append(before_point - count, '0');
    out += '.';
    out += before_point < count ? all.substr(before_point) : "0";
  }
}

bool append_special(std::string& out, double value) {
  if (std::isfinite(value)) return false;
  out += std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  return true;
}

std::string_view scientific(NumberBuffer& buffer, double value, int digits) {
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::scientific, digits - 1);
  EBB_CHECK(error == std::errc(), "a number does not fit");
  return {buffer.data(), end};
}

}  // namespace

void append_double(std::string& out, double value) {
  if (append_special(out, value)) return;
  NumberBuffer buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::scientific);
  EBB_CHECK(error == std::errc(), "a number does not fit");
  append_python(out, {buffer.data(), end});
}

void append_float(std::string& out, float value) {
  if (append_special(out, static_cast<double>(value))) return;
  NumberBuffer buffer{};
  // As many digits as it takes at least, which saves trying fewer.
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::scientific);
  EBB_CHECK(error == std::errc(), "a number does not fit");
  const std::string_view shortest(buffer.data(), end);
  const auto mantissa = shortest.substr(0, shortest.find('e'));
  const auto least = static_cast<int>(
      std::ranges::count_if(mantissa, [](char c) { return c >= '0' && c <= '9'; }));
  for (int digits = std::max(least, 6); digits <= 9; ++digits) {
    const std::string_view text = scientific(buffer, static_cast<double>(value), digits);
    double read = 0;
    std::from_chars(text.data(), text.data() + text.size(), read);
    // Beyond the largest float a cast is not defined; what is that large is not this value.
    if (std::abs(read) > 3.5e38 || static_cast<float>(read) != value) continue;
    // Python prints the double that it read, with the digits that needs.
    append_double(out, read);
    return;
  }
  EBB_CHECK(false, "nine digits do not tell a float");
}

void append_quoted(std::string& out, std::string_view value, bool is_text) {
  out += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '"':
      case '\'':
      case '\\':
        (out += '\\') += c;
        break;
      default:
        if ((byte >= 0x20 && byte < 0x7F) || (byte >= 0x80 && is_text)) {
          out += c;
        } else {
          out += '\\';
          out += static_cast<char>('0' + (byte >> 6U));
          out += static_cast<char>('0' + (byte >> 3U & 7U));
          out += static_cast<char>('0' + (byte & 7U));
        }
    }
  }
  out += '"';
}

}  // namespace ebb
