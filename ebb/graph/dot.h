// A graph as Graphviz text, drawn as the paper draws it: double circles are parameterized, full
// arrows read, dotted arrows update, dashed arrows control.
#pragma once

#include <string>

#include "ebb/graph/graph.h"

namespace ebb {

std::string to_dot(const Graph& graph);

}  // namespace ebb
