// Two roads for what goes wrong. This file is the first: bad input and missing resources are
// values, `Result<T>`, and functions that return one are [[nodiscard]]. Our own bugs take the other
// road, the exception in check.h.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace ebb {

// What the caller can do about an error. The numbers are the exit statuses of `ebb`.
enum class ErrorKind {
  kUsage = 2,       // the command or call was wrong
  kBadInput = 3,    // a file, line or node was wrong
  kInfeasible = 4,  // the request is clear, and impossible
  kRefused = 5,     // a check said no
};

// Where in a text the error stands; counted from 1, 0 when there is no such place.
struct Place {
  int line = 0;
  int column = 0;
};

struct Error {
  ErrorKind kind = ErrorKind::kBadInput;
  std::string code;     // "P12": the entry in docs/errors.md; empty when there is none
  std::string message;  // one line: what is wrong, who is involved, what to do
  Place place;

  // "step.ebb:3:12: P12: message"; parts that are unknown are left out.
  [[nodiscard]] std::string render(std::string_view file) const;
};

// The text with control characters spelled out, for messages and terminals.
std::string printable(std::string_view text);

template <class T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;

inline tl::unexpected<Error> fail(Error error) { return tl::make_unexpected(std::move(error)); }
inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return fail(Error{.kind = kind, .code = {}, .message = std::move(message), .place = {}});
}

}  // namespace ebb
