// Operations for tests: every one is a hash of what it reads, so that a byte read too late, or from
// the wrong place, changes everything after it.
//
// Those of `aten::` are elementwise: each element of the result is a hash of the elements of the
// same index, which are read right before it is written, from the last to the first; masked_fill
// copies its first operand before it looks at the others. All others read everything, then write;
// aten::convolution_backward, which is one of them, reads its input for all gradients but that of
// the input (convolution_backward.h).
#pragma once

#include <cstddef>
#include <functional>

#include "ebb/exec/scalars.h"
#include "ebb/graph/graph.h"

namespace ebb {

// The bytes from a tensor's first element to its last; the size must be known.
std::size_t byte_count(const Graph& graph, TensorId tensor);

// Where a tensor's first byte is.
using PlaceOf = std::function<std::byte*(TensorId)>;

bool is_hash_elementwise(const Graph& graph, NodeId node);

// Reads operands at `place`, writes results at `result_place`: new ones and updated ones. Views are
// not touched.
void run_hash_op(const Graph& graph, NodeId node, const PlaceOf& place, const PlaceOf& result_place,
                 exec::Scalars& scalars);

}  // namespace ebb
