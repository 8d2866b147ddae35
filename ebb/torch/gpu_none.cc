// A build with a PyTorch that has no CUDA.
#include "ebb/base/check.h"
#include "ebb/torch/gpu.h"

namespace ebb::torch {

struct GpuScope::Streams {};

Status check_gpu(int /*device*/) {
  return fail(ErrorKind::kUsage,
              "this Ebb was built with a PyTorch without CUDA; build it with one that has it");
}

Result<std::unique_ptr<exec::Backend>> make_gpu_backend(int device) {
  return fail(check_gpu(device).error());
}

void install_gpu_allocator() { EBB_CHECK(false, "a GPU's allocator in a build without CUDA"); }

void release_gpu_cache() {}

GpuScope::GpuScope(exec::Backend& /*backend*/) {
  EBB_CHECK(false, "a GPU's stream in a build without CUDA");
}

GpuScope::~GpuScope() = default;

}  // namespace ebb::torch
