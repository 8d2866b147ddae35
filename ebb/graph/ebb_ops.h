// The operators that rewriting adds to a graph.
#pragma once

#include <string_view>

namespace ebb {

inline constexpr std::string_view kSwapOut = "ebb::swap_out";  // device to host
inline constexpr std::string_view kSwapIn = "ebb::swap_in";    // host to device

}  // namespace ebb
