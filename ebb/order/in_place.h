// Which results can take over the bytes of an operand that dies at their operation.
//
//   Before:  %a dies here ──► %r = aten::relu(%a)       two buffers, both alive at this line
//   After:   %r lies where %a lay                       one buffer
//   When:    the operator is in elementwise.h, has one result (or one for each operand of a list)
//            and neither updates nor has effects; %a and %r have the same elements in the same
//            places (shape, strides, element size), dense, and are
//            all of their storages; nobody else needs %a's: no later line, no other view among the
//            operands, not the caller, no swap-out, which reads while others compute; and what the
//            kernel asks for is as large as what %a has. TensorFlow asks whether anybody else
//            holds the bytes: who feeds a tensor does, and who reads it twice.
//   Why:     each element is read before the one in its place is written, and never again.
#pragma once

#include <span>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/order/liveness.h"

namespace ebb {

// By storage: whose bytes it takes over; not valid for most. Chains are there link by link: an
// entry always names the storage right before. `sizes` by storage; `can_be_placed` as well: whether
// its kernel asks for all of its bytes at once, so that it can be told where they are.
// O(nodes + edges).
std::vector<StorageId> find_takeovers(const Graph& graph, std::span<const Life> lives,
                                      std::span<const Bytes> sizes,
                                      const std::vector<bool>& can_be_placed);

// Whether the node's result with this index could take over the bytes of the operand with that one,
// if nobody needed these any more.
bool could_take_over(const Graph& graph, NodeId node, std::uint32_t result, std::uint32_t operand);
// Or those of any.
bool can_take_over(const Graph& graph, NodeId node, std::uint32_t result);

}  // namespace ebb
