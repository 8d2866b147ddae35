// Gives numbers to the dimensions that a training graph leaves open, from the one number that
// decides them all: the batch size.
//
// Keras traces a step with an open batch, `f32[?,224,224,3]`, and a plan is made of sizes. First
// from the bottom up: what elementwise operators read has the dimensions of what they make. Then
// down: what follows from the operator, its operands' shapes and the arithmetic on shapes before it
// (derive_shape.h); a view has as many elements as what it is a view of; otherwise an open
// dimension is what it is at the same place of an operand that was open there, or at the first open
// place of one; where no operand is open, the first dimension of what comes in is the batch. These
// are sizes to plan with, not to compute with: the types of a graph that is written must be the old
// ones.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

// What does not follow, as the dimensions of a sparse tensor, stays open. O(nodes + edges).
void complete_shapes(Graph& graph, std::int64_t batch_size);

// Takes tensors of which not even the rank is known to be empty: what some kernels keep for others,
// as `FusedBatchNormV3` does, and what comes out of loops. These. Where a view of one is known, as
// a `Reshape` is, it has as many bytes.
std::vector<TensorId> empty_unranked(Graph& graph);

// Puts back the types of what was there before, which `original` has under the same ids.
void restore_types(Graph& graph, const Graph& original);

}  // namespace ebb
