// The canonical text of a graph; docs/graph-text.md is its grammar. For every graph g that the
// verifier accepts, print(parse(print(g))) == print(g).
#pragma once

#include <string>

#include "ebb/graph/graph.h"

namespace ebb {

std::string print(const Graph& graph);

// One line of it, without indentation or line break, as messages quote nodes.
std::string print(const Graph& graph, NodeId node);

}  // namespace ebb
