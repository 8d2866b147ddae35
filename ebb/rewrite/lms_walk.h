// In which order the driver comes to operations: breadth-first over edges that carry tensors, in
// line order. What the walk does not reach is left alone.
#pragma once

#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/lms_graph.h"

namespace ebb {

// It begins at what the options name. When they name nothing: at the inputs and at the operations
// that bring data in, which are effects as tf::IteratorGetNext that read at most handles; in a
// graph without inputs, at all that reads no operation's tensor. O(nodes + edges).
std::vector<NodeId> walk_order(const Graph& graph, const LmsOptions& options,
                               const LmsEdges& edges);

}  // namespace ebb
