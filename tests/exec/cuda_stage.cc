#include "tests/exec/cuda_stage.h"

#include <stdexcept>
#include <utility>

#include "ebb/exec/cuda_lanes.h"
#include "tests/exec/threaded_cuda.h"

namespace ebb {
namespace {

void throw_unless_done(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(exec::cuda_error(code, "launching").message);
}

}  // namespace

HashLauncher into_compute_stream(const exec::CudaBackend& backend) {
  auto* stream = static_cast<cudaStream_t>(backend.compute_stream());
  return [stream](HashWork work, exec::Scalars& scalars) {
    Job job{.name = std::string(work.graph.name(work.node)), .touches = {}, .run = {}};
    for (const HashTouch& touch : work.touches) {
      job.touches.push_back(
          {.begin = touch.bytes.data(), .size = touch.bytes.size(), .writes = touch.writes});
    }
    const ScalarId result = work.graph.scalar_result(work.node);
    const auto made = std::make_shared<exec::Number>();
    job.run = [run = std::move(work.run), given = scalars, result, made] {
      exec::Scalars now = given;
      run(now);
      if (result.valid()) *made = now[result];
    };
    throw_unless_done(threaded_cuda::launch(stream, std::move(job)));
    if (!result.valid()) return;
    throw_unless_done(cudaStreamSynchronize(stream));
    scalars.set(result, *made);
  };
}

CudaStage::CudaStage(exec::CudaBackend& backend, Manner manner)
    : Stage(backend), cuda_(backend), manner_(manner) {
  note(cudaStreamCreateWithFlags(&caller_, cudaStreamNonBlocking));
  cuda_.follow(caller_);
}

CudaStage::~CudaStage() {
  exec::ignore(cudaStreamSynchronize(caller_));
  if (caller_ != nullptr) exec::ignore(cudaStreamDestroy(caller_));
}

void CudaStage::note(cudaError_t code) {
  exec::ignore(code);
  if (code_ == cudaSuccess) code_ = code;
}

void CudaStage::write(std::byte* to, std::span<const std::byte> bytes) {
  note(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyDefault, caller_));
}

void CudaStage::read(const std::byte* from, std::span<std::byte> bytes) {
  note(cudaMemcpyAsync(bytes.data(), from, bytes.size(), cudaMemcpyDefault, caller_));
}

Status CudaStage::run(exec::Executor& executor, exec::Scalars& scalars) {
  const Inside inside(cuda_);
  if (manner_ == Manner::kKept) return keep(executor, scalars);
  return executor.run(scalars, nullptr, manner_ == Manner::kTimed);
}

Status CudaStage::keep(exec::Executor& executor, exec::Scalars& scalars) {
  exec::Lanes& lanes = cuda_.lanes();
  if (made_ && given_ == scalars) {
    scalars = *made_;
    return replay();
  }
  given_.reset();
  const exec::Scalars given = scalars;
  if (!lanes.keep_next()) return executor.run(scalars);
  if (!executor.run(scalars)) {  // some kernel cannot be kept
    scalars = given;
    return executor.run(scalars);
  }
  given_ = given;
  made_ = scalars;
  return replay();
}

Status CudaStage::replay() {
  ++replayed_;
  return cuda_.lanes().replay();
}

Status CudaStage::settle() {
  note(cudaStreamSynchronize(caller_));
  Status settled = cuda_.lanes().settle();
  if (code_ == cudaSuccess) return settled;
  StreamWorkers::get().wait_for_all();  // what was not waited for must not outlive its bytes
  return fail(exec::cuda_error(code_, "the caller's stream"));
}

std::string take_trouble() {
  std::string trouble;
  for (const std::string& race : StreamWorkers::get().take_races()) trouble += race + "\n";
  for (const std::string& fault : StreamWorkers::get().take_faults()) trouble += fault + "\n";
  return trouble;
}

}  // namespace ebb
