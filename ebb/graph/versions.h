// Which version of its storage each tensor is, derived from the graph.
//
// GraphEdit sets a tensor's version when it makes the tensor. Who rewires operands afterwards may
// change what it ought to be: derive_versions says, GraphEdit::renumber_versions sets it right, and
// the verifier compares. O(nodes + edges).
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

// By tensor. What a node updates becomes the operand's version + 1; what it makes in the bytes of
// an operand it only reads is a view of that operand's version; everything else is version 0. Lines
// must stand after the lines whose results they read.
std::vector<std::uint32_t> derive_versions(const Graph& graph);

}  // namespace ebb
