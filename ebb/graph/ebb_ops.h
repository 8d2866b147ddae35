// The names that are ours: operators that rewriting adds to a graph, and a note.
#pragma once

#include <string_view>

namespace ebb {

inline constexpr std::string_view kSwapOut = "ebb::swap_out";   // device to host
inline constexpr std::string_view kSwapIn = "ebb::swap_in";     // host to device
inline constexpr std::string_view kSnapshot = "ebb::snapshot";  // a copy on the same side
inline constexpr std::string_view kEncode = "ebb::encode";      // {codec = "..."}
inline constexpr std::string_view kDecode = "ebb::decode";      // {codec = "..."}

// Attributes that are notes: no part of the computation, and nobody's business when graphs are
// compared. The line of user code that an operation comes from, and all that begin with `note.`, in
// which a frontend keeps what it needs to write its own file again.
inline constexpr std::string_view kUserCode = "ebb.at";
inline constexpr std::string_view kNotePrefix = "note.";
constexpr bool is_note(std::string_view key) {
  return key == kUserCode || key.starts_with(kNotePrefix);
}

// Whether it is one of these operators: each makes of one tensor the same elsewhere, or in another
// form.
constexpr bool is_copy(std::string_view op) {
  return op == kSwapOut || op == kSwapIn || op == kSnapshot || op == kEncode || op == kDecode;
}

}  // namespace ebb
