// What lower refuses, with the reason.
#pragma once

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/recipe.h"

namespace ebb {

// Whether a program can run the graph: one device, straight lines, every size known; on the host
// nothing but what was swapped out.
[[nodiscard]] Status check_runnable(const Graph& graph);

// Whether the recipe can be the node's: its requests are for results of the node, each at most
// once and large enough, that do not lie in the bytes of an operand; what is temporary is given
// back after it was asked for.
[[nodiscard]] Status check_recipe(const Graph& graph, NodeId node, const Recipe& recipe);

}  // namespace ebb
