// The operators that rewriting adds to a graph.
#pragma once

#include <string_view>

namespace ebb {

inline constexpr std::string_view kSwapOut = "ebb::swap_out";   // device to host
inline constexpr std::string_view kSwapIn = "ebb::swap_in";     // host to device
inline constexpr std::string_view kSnapshot = "ebb::snapshot";  // a copy on the same side
inline constexpr std::string_view kEncode = "ebb::encode";      // {codec = "..."}
inline constexpr std::string_view kDecode = "ebb::decode";      // {codec = "..."}

}  // namespace ebb
