// The insides of the CUDA runtime made of threads (threaded_cuda.h): what its handles point to, and
// what every function of the API does.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/exec/stream_workers.h"
#include "tests/exec/threaded_cuda.h"

namespace ebb::threaded_cuda {

using Tips = std::set<std::size_t>;  // nodes that the next one comes after

struct Node {
  Job job;
  std::size_t lane = 0;  // which of the captured streams
  Tips after;
};

struct Capture {
  std::thread::id thread;
  bool is_valid = true;
  std::vector<cudaStream_t> streams;  // the first is where it began
  std::vector<Node> nodes;
};

// What has been allocated or pinned, by its first byte.
struct Block {
  std::size_t size = 0;
  int device = 0;
};
using Blocks = std::map<std::byte*, Block>;

}  // namespace ebb::threaded_cuda

// The types that CUDA's handles point to.
// NOLINTBEGIN(readability-identifier-naming)
struct CUstream_st {
  int device = 0;
  std::uint32_t worker = 0;
  ebb::OperationPtr last;
  std::shared_ptr<ebb::threaded_cuda::Capture> capture;
  std::size_t lane = 0;
  ebb::threaded_cuda::Tips tips;
};

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  ebb::OperationPtr record;
  std::shared_ptr<ebb::threaded_cuda::Capture> capture;  // where it was recorded instead
  ebb::threaded_cuda::Tips tips;
};

struct CUgraph_st {
  std::vector<ebb::threaded_cuda::Node> nodes;
  std::size_t lanes = 0;
};

struct CUgraphExec_st {
  CUgraph_st graph;
  std::vector<std::uint32_t> workers;  // by lane
};
// NOLINTEND(readability-identifier-naming)

namespace ebb::threaded_cuda {

struct Runtime {
  std::mutex mutex;  // guards everything
  Living living;
  Blocks allocated;
  Blocks pinned;
  std::array<std::unique_ptr<CUstream_st>, kDevices> default_streams;
  Trouble trouble;
  Happened happened;

  static Runtime& get() {
    static Runtime& runtime = *new Runtime;  // NOLINT(*-owning-memory): threads may use it longer
    return runtime;
  }

  // What the next call is told to say.
  cudaError_t next_trouble(const char* name) {
    const std::size_t number = ++happened.calls;
    const bool fails =
        trouble.is_for_good ? trouble.failing_call <= number : trouble.failing_call == number;
    if (trouble.failing_call == 0 || !fails) return cudaSuccess;
    if (happened.failed.empty()) happened.failed = name;
    return trouble.code;
  }

  bool drops_this_wait() { return ++happened.waits == trouble.dropped_wait; }

  // A null stream is the default one of the device.
  cudaStream_t stream_of(cudaStream_t stream);
};

extern thread_local int current_device;
extern thread_local cudaError_t last_error;

enum class Gives : std::uint8_t { kNothingBack, kBack };  // back: even if it fails

// A function of the API. The body has the runtime to itself.
template <class Body>
cudaError_t call(const char* name, Body body, Gives gives = Gives::kNothingBack) {
  const Unseen unseen;
  Runtime& runtime = Runtime::get();
  const std::scoped_lock lock(runtime.mutex);
  cudaError_t code = runtime.next_trouble(name);
  if (code == cudaSuccess || gives == Gives::kBack) {
    const cudaError_t own = body(runtime);
    if (code == cudaSuccess) code = own;
  }
  if (code != cudaSuccess) last_error = code;
  return code;
}

// What is put into the capture's streams is lost.
cudaError_t invalidate(const std::shared_ptr<Capture>& capture, cudaError_t code);
// All that are under way, and some that have ended.
std::vector<std::weak_ptr<Capture>>& captures();
// What waits for the whole device may not be called by who captures.
cudaError_t check_not_capturing();

// Into a stream, whether it is captured or not.
void put(cudaStream_t stream, const OperationPtr& operation, std::vector<OperationPtr> after);
// Into a stream, or into the graph that it is captured for.
cudaError_t submit(cudaStream_t stream, const OperationPtr& operation);

}  // namespace ebb::threaded_cuda
