// The streams of one GPU as lanes (lanes.h). There are three for all steps on a GPU, because
// libraries keep memory for every stream that they have seen; so steps of different threads are put
// in one after the other.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "ebb/exec/lanes.h"

namespace ebb::exec {

// "what: the CUDA runtime's words". kInfeasible where memory is short, else kBadInput.
Error cuda_error(cudaError_t code, const char* what);
// After such an error CUDA does nothing more for the process.
bool is_for_good(cudaError_t code);
// For what gives something back: there is nobody to tell, and whoever asks CUDA for its last error
// next must not take it for his own.
void ignore(cudaError_t code);

class CudaLanes final : public Lanes {
 public:
  // The device must be the current one, here and in all calls.
  [[nodiscard]] Status open(int device);
  CudaLanes() = default;
  CudaLanes(const CudaLanes&) = delete;
  CudaLanes& operator=(const CudaLanes&) = delete;
  ~CudaLanes() override;

  void begin(std::size_t instructions, bool is_timed) override;
  void wait(Lane lane, std::uint32_t instruction) override;
  void start(Lane lane, std::uint32_t instruction) override;
  void copy(Lane lane, std::byte* to, const std::byte* from, std::size_t size) override;
  void finish(Lane lane, std::uint32_t instruction) override;
  [[nodiscard]] bool has_failed() const override { return !status_; }
  Status end() override;
  [[nodiscard]] bool can_keep() const override { return true; }
  [[nodiscard]] bool keep_next() override;
  void drop_next() override;
  Status replay() override;
  Status settle() override;
  Result<std::vector<Interval>> times() override;

  void follow(cudaStream_t caller) { caller_ = caller; }
  // Around all that puts something into the compute lane: what others put there while a step is
  // being kept would become a part of it. Enters when no step is.
  void enter();
  void leave();
  [[nodiscard]] cudaStream_t stream(Lane lane) const {
    return streams_->lanes[static_cast<std::size_t>(lane)];
  }

 private:
  void note(cudaError_t code, const char* what);  // keeps the first that is none
  Status take_error();
  // Event i of a list that grows as needed.
  cudaEvent_t event(std::vector<cudaEvent_t>& events, std::size_t i, unsigned flags);
  void join(Lane lane);  // one that is first used in this step starts after its begin
  void end_keeping();
  void stop_keeping();  // others may enter
  void meet(cudaStream_t first, cudaStream_t then, cudaEvent_t event);

  struct Streams {
    std::array<cudaStream_t, kLaneCount> lanes{};
    std::mutex mutex;   // whose step is being put in
    std::mutex guests;  // guards what follows
    std::condition_variable kept;
    int inside = 0;
    bool is_keeping = false;
  };
  [[nodiscard]] static Result<Streams*> streams_of(int device);

  Streams* streams_ = nullptr;  // of the device, for as long as the process runs
  std::unique_lock<std::mutex> turn_;
  cudaStream_t caller_ = nullptr;
  cudaEvent_t meeting_ = nullptr;  // where streams meet; each record replaces the one before
  std::vector<cudaEvent_t> done_;  // by instruction
  cudaEvent_t began_ = nullptr;
  std::vector<cudaEvent_t> starts_;  // by instruction, of a timed step
  std::vector<cudaEvent_t> ends_;
  std::vector<bool> is_timed_;  // by instruction: it has a start and an end
  bool times_step_ = false;
  std::array<bool, kLaneCount> is_used_{};
  bool keeps_ = false;  // this step, or the next: the compute lane records
  cudaGraphExec_t kept_ = nullptr;
  Status status_;
};

}  // namespace ebb::exec
