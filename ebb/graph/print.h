// The canonical text of a graph; docs/graph-text.md is its grammar. For every graph g that the
// verifier accepts, print(parse(print(g))) == print(g).
#pragma once

#include <string>

#include "ebb/graph/graph.h"

namespace ebb {

struct PrintOptions {
  bool notes = true;  // without them, attributes that are no part of the computation are left out
};

std::string print(const Graph& graph, const PrintOptions& options = {});

// One line of it, without indentation or line break, as messages quote nodes.
std::string print(const Graph& graph, NodeId node);

}  // namespace ebb
