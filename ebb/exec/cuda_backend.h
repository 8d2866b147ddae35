// An NVIDIA GPU: streams are lanes, and the host slab is pinned, so that copies run beside compute.
//
// Nothing here waits for the GPU but what says so: a step is put into the streams and the caller
// goes on. A failure that the GPU reports later is the error of the call that hears of it.
#pragma once

#include <memory>

#include "ebb/exec/backend.h"

namespace ebb::exec {

class CudaBackend : public Backend {
 public:
  // The stream of the compute lane, a cudaStream_t: kernels must be put into it.
  [[nodiscard]] virtual void* compute_stream() const = 0;
  // The stream that the caller works in, a cudaStream_t: a step begins after what is there, and
  // what the caller puts there after a step comes after it.
  virtual void follow(void* stream) = 0;
  // Around all that is put into the compute stream by somebody: enters when nobody is keeping a
  // step there (cuda_lanes.h).
  virtual void enter() = 0;
  virtual void leave() = 0;
  [[nodiscard]] virtual int device() const = 0;  // its number
};

// kUsage when there is no such GPU, or none at all.
[[nodiscard]] Status check_cuda(int device);
[[nodiscard]] Result<std::unique_ptr<CudaBackend>> make_cuda_backend(int device);

}  // namespace ebb::exec
