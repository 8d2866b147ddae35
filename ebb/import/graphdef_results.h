// What a TensorFlow node makes: how many results, of which types, where they lie.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/type.h"
#include "ebb/import/graphdef.h"
#include "ebb/import/graphdef_node.h"
#include "ebb/import/tensorflow_device.h"
#include "ebb/import/tensorflow_ops.h"

namespace ebb {

// `op` is nullptr for an operator that nobody knows: it makes as many results as are read of it, or
// as the file gives shapes for, and none of them may be moved.
[[nodiscard]] Result<std::vector<TensorType>> find_results(const NodeDefView& node,
                                                           const TensorFlowOp* op,
                                                           std::uint32_t results_read,
                                                           const DeviceName& accelerator,
                                                           const GraphDefOptions& options);

// How many tensors each result of the operator stands for on this node.
[[nodiscard]] Result<std::vector<std::size_t>> count_results(const NodeDefView& node,
                                                             const TensorFlowOp& op);

// How many operands the operator takes on this node.
[[nodiscard]] Result<std::size_t> count_operands(const NodeDefView& node, const TensorFlowOp& op);

}  // namespace ebb
