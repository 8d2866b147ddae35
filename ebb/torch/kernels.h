// PyTorch's operators as kernels of a program.
//
//   TorchKernels kernels(c10::Device("cpu"));   // installs the allocator (allocator.h)
//   Result<std::vector<Recipe>> recipes = exec::measure_all(graph, kernels);
//   Result<Program> program = lower(graph, *recipes);
//   Result<exec::Executor> executor = exec::Executor::make(graph, *program, kernels, ground);
//
// Operators run below autograd and autocast, on the calling thread and PyTorch's own pool of
// threads, or in the current stream of a GPU, with the device's default generator: as in an eager
// step.
//
// Some operators on a GPU return single numbers on the host, the seeds of attention with dropout,
// and want them there again. They lie beside the arena, and come and go while a step is put into
// the stream.
#pragma once

#include <unordered_map>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "ebb/exec/kernel.h"

namespace ebb::torch {

class TorchKernels final : public exec::Kernels {
 public:
  explicit TorchKernels(c10::Device device);

  [[nodiscard]] exec::MemoryKind memory() const override;
  // All leave the random number generator as it was.
  [[nodiscard]] Result<Recipe> measure(const Graph& graph, NodeId node) override;
  [[nodiscard]] Result<Duration> time(const Graph& graph, NodeId node) override;
  [[nodiscard]] Status warm_up(const Graph& graph, NodeId node) override;
  [[nodiscard]] Result<std::unique_ptr<exec::Kernel>> bind(const Graph& graph, NodeId node,
                                                           exec::Places places) override;

 private:
  at::Tensor host_value(const Graph& graph, TensorId tensor);

  c10::Device device_;
  std::unordered_map<std::uint32_t, at::Tensor> host_values_;  // by TensorId
};

}  // namespace ebb::torch
