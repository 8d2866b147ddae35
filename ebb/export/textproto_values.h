// Numbers and strings as protobuf's Python library prints them in texts.
#pragma once

#include <string>
#include <string_view>

namespace ebb {

// The shortest digits that read back as the same value, laid out as Python's repr does:
// 1.0, 1e-05, 1.5e+16, inf, nan.
void append_double(std::string& out, double value);
// Like a double; digits are those of the first of 6, 7, 8, 9 that reads back as the same float.
void append_float(std::string& out, float value);

// In double quotes. Bytes beyond ASCII stay as they are in texts and are escaped in bytes.
void append_quoted(std::string& out, std::string_view value, bool is_text);

}  // namespace ebb
