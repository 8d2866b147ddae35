// PyTorch's operators as kernels of a program.
//
//   TorchKernels kernels;                       // installs the allocator (allocator.h)
//   Result<std::vector<Recipe>> recipes = exec::measure_all(graph, kernels);
//   Result<Program> program = lower(graph, *recipes);
//   Result<exec::Executor> executor = exec::Executor::make(graph, *program, kernels, arena, host);
//
// Operators run below autograd and autocast, on the calling thread and PyTorch's own pool of
// threads, with PyTorch's default generator: as in an eager step.
#pragma once

#include "ebb/exec/kernel.h"

namespace ebb::torch {

class TorchKernels final : public exec::Kernels {
 public:
  TorchKernels();

  // Leaves the random number generator as it was.
  [[nodiscard]] Result<Recipe> measure(const Graph& graph, NodeId node) override;
  [[nodiscard]] Result<std::unique_ptr<exec::Kernel>> bind(const Graph& graph, NodeId node,
                                                           exec::Places places) override;
};

}  // namespace ebb::torch
