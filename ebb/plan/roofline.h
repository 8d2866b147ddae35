// What an operation has to do, and how long a device needs for it: the roofline model.
//
//   time = launch + max(flops / (rate * efficiency), bytes / (memory bandwidth * efficiency))
//
// and on top of it, where convolutions want channels last, what repacking the others moves.
// The operators of training steps have formulas (formulas.h), by the names of ATen
// (roofline_aten.cc) and of TensorFlow (roofline_tensorflow.cc). An operator without one is taken
// to read its operands and write its results once, and `is_known` says so.
//
//   const Work work = work_of(graph, node);      // unknown sizes count as 0: see find_unknown_size
//   const Duration time = time_of(work, device);
//
// O(operands + results). Not modelled: what caches keep from one operation to the next, other
// layouts that kernels are slow on, small shapes that leave a part of the device idle, workspaces.
#pragma once

#include <cstdint>

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"

namespace ebb {

// Which of the device's rates applies.
enum class WorkKind : std::uint8_t { kNothing, kMemory, kMatmul, kConvolution, kAttention };

struct Work {
  double flops = 0;
  double bytes = 0;           // from and to the device's memory
  double repacked_bytes = 0;  // the same, of passes that bring images into a layout and back
  WorkKind kind = WorkKind::kNothing;
  DType dtype = DType::kF32;  // of the numbers that are multiplied
  bool is_known = true;       // the operator has a formula
};

// Of any operation; those that only declare, look at or hand on bytes have nothing to do.
Work work_of(const Graph& graph, NodeId node);

// A device tensor of the operation of which nobody knows how large it is; not valid when there is
// none.
TensorId find_unknown_size(const Graph& graph, NodeId node);

// Whether the operation makes nothing but other names for bytes of its operands.
bool is_view(const Graph& graph, NodeId node);

// Zero for nothing; at most 2^53 ns whatever the numbers are.
Duration time_of(const Work& work, const Device& device);

}  // namespace ebb
