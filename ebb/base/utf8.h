// Every text Ebb reads or writes is UTF-8; this says whether one is.
#pragma once

#include <cstddef>
#include <string_view>

namespace ebb {

// The offset of the first byte that is not part of valid UTF-8; text.size() when all of it is.
// Overlong forms, surrogates and code points above U+10FFFF are not valid.
std::size_t first_invalid_utf8(std::string_view text);

inline bool is_utf8(std::string_view text) { return first_invalid_utf8(text) == text.size(); }

}  // namespace ebb
