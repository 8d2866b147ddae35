// What the proof knows of calls that compute several gradients (convolution_backward.h): such a
// call may be written as two, of which the first gives the gradients of weight and bias, and the
// second, which waits for it, that of the input, for which it reads no input. Part of proof.h.
//
// So the original is split where the rewritten graph is, by nothing but names, and all else is
// compared as ever: two calls that are not those made here differ from them.
#pragma once

#include <span>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

// The calls of the original that may be two and whose second result the rewritten graph has from a
// node of its own, in line order.
std::vector<NodeId> find_split_calls(const Graph& original, const Graph& rewritten);

// The same graph with two calls for each of these. The one that makes the gradient of the input has
// the id of the whole; the others come after all nodes of the original, in the order of `calls`.
Graph with_split_calls(Graph original, std::span<const NodeId> calls);

}  // namespace ebb
