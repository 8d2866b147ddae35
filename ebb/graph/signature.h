// What decides how an operation behaves, as text: operator, types of operands and results, which
// operands are updated, attributes. Two nodes of one signature allocate the same, cost the same.
// Not part of it: names, places, control edges, the values of runtime scalars (their types are),
// and attributes whose key begins with "ebb." or "note.", which are notes.
#pragma once

#include <string>

#include "ebb/graph/graph.h"

namespace ebb {

std::string signature(const Graph& graph, NodeId node);

}  // namespace ebb
