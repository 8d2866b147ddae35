// EBB_CHECK that also dumps the graph at hand.
//
//   EBB_CHECK_ON(graph, index < count, "'{}' has no operand {}", graph.name(node), index);
#pragma once

#include <string>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/graph.h"

namespace ebb {

// For InternalError: the text, or as much as can be said of a graph too broken to print.
std::string dump(const Graph& graph);

}  // namespace ebb

#define EBB_CHECK_ON(graph, condition, ...)                                                 \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      ::ebb::throw_internal_error(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__), \
                                  ::ebb::dump(graph));                                      \
    }                                                                                       \
  } while (false)
