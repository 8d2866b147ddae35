// An order of lines that needs little memory, for graphs whose lines stand in the order of a file.
//
// TensorFlow starts whatever is ready, so a GraphDef may list its nodes in any order; planning
// needs one that a training step would take: gradients are used up soon after they are made,
// variables are read when they are needed.
//
// Idea: go from the front and pick, among operations that may run, the one that frees most and
// makes least; a chain of views goes along with who reads it. The file's own order is kept where it
// needs no more. O((nodes + edges) log nodes).
#pragma once

#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

// A permutation of the nodes in which each stands below those it waits for. Of a graph that the
// verifier accepts and nobody has rewritten; effects are ordered by control edges only, as in
// TensorFlow.
std::vector<NodeId> find_frugal_order(const Graph& graph);

}  // namespace ebb
