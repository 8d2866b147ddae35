// Programs of hash operations on a GPU, as a framework would run them there: kernels are put into
// the compute stream, and what goes in and out into a stream of the caller's. Nothing waits for
// anything but what the lanes say.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ebb/exec/cuda_backend.h"
#include "tests/exec/compiled.h"
#include "tests/exec/hash_kernels.h"

namespace ebb {

// Throws what CUDA says, as PyTorch does.
HashLauncher into_compute_stream(const exec::CudaBackend& backend);

// Around what a caller puts into the compute stream.
class Inside {
 public:
  explicit Inside(exec::CudaBackend& backend) : backend_(backend) { backend_.enter(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { backend_.leave(); }

 private:
  exec::CudaBackend& backend_;
};

class CudaStage final : public Stage {
 public:
  enum class Manner : std::uint8_t {
    kPlain,
    kTimed,
    kKept,  // steps with the scalars of the last one are replayed; what cannot be kept is done
  };

  CudaStage(exec::CudaBackend& backend, Manner manner);
  CudaStage(const CudaStage&) = delete;
  CudaStage& operator=(const CudaStage&) = delete;
  ~CudaStage() override;

  void write(std::byte* to, std::span<const std::byte> bytes) override;
  void read(const std::byte* from, std::span<std::byte> bytes) override;
  [[nodiscard]] Status run(exec::Executor& executor, exec::Scalars& scalars) override;
  [[nodiscard]] Status settle() override;

  [[nodiscard]] int replayed() const { return replayed_; }

 private:
  [[nodiscard]] Status keep(exec::Executor& executor, exec::Scalars& scalars);
  [[nodiscard]] Status replay();
  void note(cudaError_t code);

  exec::CudaBackend& cuda_;
  Manner manner_;
  cudaStream_t caller_ = nullptr;
  cudaError_t code_ = cudaSuccess;      // the first that is none
  std::optional<exec::Scalars> given_;  // to the step that is kept
  std::optional<exec::Scalars> made_;   // by it
  int replayed_ = 0;
};

// What the threads have seen since the last time that should not be: operations without an order,
// and what kernels threw. Empty if all is well.
std::string take_trouble();

}  // namespace ebb
