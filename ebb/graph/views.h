// Lines that run no code: they say under which name and shape bytes are seen that are there
// already.
#pragma once

#include "ebb/graph/graph.h"

namespace ebb {

// Whether a node runs no code, because all it makes are places in the bytes of its operands.
bool makes_only_views(const Graph& graph, NodeId node);

}  // namespace ebb
