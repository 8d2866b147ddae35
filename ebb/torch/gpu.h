// What PyTorch needs on a GPU beyond what it needs on the CPU. A build without CUDA has it too, and
// says that it cannot.
#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "ebb/base/result.h"
#include "ebb/exec/backend.h"

namespace ebb::torch {

// kUsage in a build without CUDA, and where there is no such GPU. PyTorch is ready to use it then.
[[nodiscard]] Status check_gpu(int device);
[[nodiscard]] Result<std::unique_ptr<exec::Backend>> make_gpu_backend(int device);

// Puts the allocator of allocator.h in front of PyTorch's own for GPU memory as well.
void install_gpu_allocator();

// Gives back what PyTorch's allocator keeps for later.
void release_gpu_cache();

// In its scope PyTorch puts kernels into the compute lane of a backend of make_gpu_backend, and
// steps of it follow what the caller's stream has.
class GpuScope {
 public:
  explicit GpuScope(exec::Backend& backend);
  GpuScope(const GpuScope&) = delete;
  GpuScope& operator=(const GpuScope&) = delete;
  ~GpuScope();

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

// What PyTorch does in the scope, it does on this device, CPU or GPU, and in the lane of the
// backend.
class OnDevice {
 public:
  OnDevice(c10::Device device, exec::Backend& backend) {
    if (!device.is_cpu()) scope_ = std::make_unique<GpuScope>(backend);
  }

 private:
  std::unique_ptr<GpuScope> scope_;
};

}  // namespace ebb::torch
