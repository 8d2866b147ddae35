// Checks on ourselves. A failed EBB_CHECK is a bug in Ebb, never the user's fault: it throws
// InternalError, which carries the text of the graph at hand, and never ends the user's process.
//
//   EBB_CHECK(begin <= end, "range [{}, {}) is inside out", begin, end);
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace ebb {

class InternalError : public std::logic_error {
 public:
  InternalError(const std::string& what, std::string dump)
      : std::logic_error(what), dump_(std::move(dump)) {}

  // What we were working on, as text that can be read back; empty when nothing was at hand.
  [[nodiscard]] const std::string& dump() const { return dump_; }

 private:
  std::string dump_;
};

[[noreturn]] void throw_internal_error(const char* file, int line, const char* condition,
                                       const std::string& message, std::string dump = {});

}  // namespace ebb

// EBB_CHECK_ON(graph, condition, ...) in graph/print.h also dumps the graph.
#define EBB_CHECK(condition, ...)                                                            \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      ::ebb::throw_internal_error(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    }                                                                                        \
  } while (false)
