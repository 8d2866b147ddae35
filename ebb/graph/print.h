// The canonical text of a graph; docs/graph-text.md is its grammar. For every graph g that the
// verifier accepts, print(parse(print(g))) == print(g).
#pragma once

#include <string>

#include "ebb/base/check.h"
#include "ebb/graph/graph.h"

namespace ebb {

std::string print(const Graph& graph);

// One line of it, without indentation or line break, as messages quote nodes.
std::string print(const Graph& graph, NodeId node);

// For InternalError: the text, or as much as can be said of a graph too broken to print.
std::string dump(const Graph& graph);

// "scalar::sub" and its like: host arithmetic, whose arguments are numbers and scalars.
bool is_host_arithmetic(std::string_view op);

}  // namespace ebb

#define EBB_CHECK_ON(graph, condition, ...)                                                 \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      ::ebb::throw_internal_error(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__), \
                                  ::ebb::dump(graph));                                      \
    }                                                                                       \
  } while (false)
