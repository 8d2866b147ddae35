#include "tests/exec/threaded_cuda.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace {

using ebb::Job;
using ebb::Operation;
using ebb::OperationPtr;
using ebb::StreamWorkers;
using ebb::Unseen;

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

std::size_t sum_of(const Blocks& blocks, int device) {
  std::size_t sum = 0;
  for (const auto& [data, block] : blocks) sum += block.device == device ? block.size : 0;
  return sum;
}

}  // namespace

// The types that CUDA's handles point to.
// NOLINTBEGIN(readability-identifier-naming)
struct CUstream_st {
  int device = 0;
  std::uint32_t worker = 0;
  OperationPtr last;
  std::shared_ptr<Capture> capture;
  std::size_t lane = 0;
  Tips tips;
};

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  OperationPtr record;
  std::shared_ptr<Capture> capture;  // where it was recorded instead
  Tips tips;
};

struct CUgraph_st {
  std::vector<Node> nodes;
  std::size_t lanes = 0;
};

struct CUgraphExec_st {
  CUgraph_st graph;
  std::vector<std::uint32_t> workers;  // by lane
};
// NOLINTEND(readability-identifier-naming)

namespace {

using ebb::threaded_cuda::Happened;
using ebb::threaded_cuda::kDevices;
using ebb::threaded_cuda::Living;
using ebb::threaded_cuda::Trouble;

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

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaStream_t Runtime::stream_of(cudaStream_t stream) {
  if (stream != nullptr) return stream;
  auto& made = default_streams[static_cast<std::size_t>(current_device)];
  if (made == nullptr) {
    made = std::make_unique<CUstream_st>();
    made->device = current_device;
    made->worker = StreamWorkers::get().take();
  }
  return made.get();
}

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

cudaError_t invalidate(const std::shared_ptr<Capture>& capture, cudaError_t code) {
  capture->is_valid = false;
  return code;
}

// What waits for the whole device may not be called by who captures.
std::vector<std::weak_ptr<Capture>>& captures() {
  static auto& all = *new std::vector<std::weak_ptr<Capture>>;  // NOLINT(*-owning-memory)
  return all;
}

cudaError_t check_not_capturing() {
  for (const auto& each : captures()) {
    const auto capture = each.lock();
    if (capture != nullptr && capture->thread == std::this_thread::get_id()) {
      return invalidate(capture, cudaErrorStreamCaptureUnsupported);
    }
  }
  return cudaSuccess;
}

void put(cudaStream_t stream, const OperationPtr& operation, std::vector<OperationPtr> after) {
  StreamWorkers::get().put(stream->worker, operation, std::move(after));
  stream->last = operation;
}

cudaError_t submit(cudaStream_t stream, const OperationPtr& operation) {
  if (stream->capture == nullptr) {
    put(stream, operation, {});
    return cudaSuccess;
  }
  Capture& capture = *stream->capture;
  if (!capture.is_valid) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back(
      {.job = std::move(operation->job), .lane = stream->lane, .after = stream->tips});
  stream->tips = {capture.nodes.size() - 1};
  return cudaSuccess;
}

// The nodes and all that they come after.
Tips closure(const std::vector<Node>& nodes, Tips tips) {
  for (std::size_t i = nodes.size(); i > 0; --i) {
    if (tips.contains(i - 1)) tips.insert(nodes[i - 1].after.begin(), nodes[i - 1].after.end());
  }
  return tips;
}

bool contains_all(const Tips& all, const Tips& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

bool is_joined(const Capture& capture) {
  const Tips joined = closure(capture.nodes, capture.streams[0]->tips);
  return std::all_of(capture.streams.begin(), capture.streams.end(),
                     [&](cudaStream_t stream) { return contains_all(joined, stream->tips); });
}

cudaError_t wait_captured(Runtime& runtime, cudaStream_t stream, const CUevent_st& event) {
  const auto& capture = event.capture;
  if (capture->streams.empty()) return cudaErrorCapturedEvent;  // it has ended
  if (!capture->is_valid) return cudaErrorStreamCaptureInvalidated;
  if (stream->capture != nullptr && stream->capture != capture) {
    invalidate(stream->capture, cudaSuccess);
    return invalidate(capture, cudaErrorStreamCaptureMerge);
  }
  const bool joins = stream->capture == nullptr;
  if (!joins && contains_all(closure(capture->nodes, stream->tips), event.tips)) return cudaSuccess;
  if (runtime.drops_this_wait()) return cudaSuccess;
  if (joins) {
    stream->capture = capture;
    stream->lane = capture->streams.size();
    stream->tips.clear();
    capture->streams.push_back(stream);
  }
  stream->tips.insert(event.tips.begin(), event.tips.end());
  return cudaSuccess;
}

cudaError_t wait_recorded(Runtime& runtime, cudaStream_t stream, const CUevent_st& event) {
  if (event.record == nullptr) return cudaSuccess;
  if (stream->capture != nullptr) {
    return invalidate(stream->capture, cudaErrorStreamCaptureIsolation);
  }
  const bool matters = !StreamWorkers::get().is_after(stream->worker, *event.record);
  if (matters && runtime.drops_this_wait()) return cudaSuccess;
  put(stream, Operation::make(), {event.record});
  return cudaSuccess;
}

ebb::Touch touch(const void* data, std::size_t size, bool writes) {
  return {.begin = static_cast<const std::byte*>(data), .size = size, .writes = writes};
}

struct Words {
  const char* name;
  const char* text;
};

Words words_of(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return {"cudaSuccess", "no error"};
    case cudaErrorInvalidValue:
      return {"cudaErrorInvalidValue", "invalid argument"};
    case cudaErrorMemoryAllocation:
      return {"cudaErrorMemoryAllocation", "out of memory"};
    case cudaErrorInvalidDevice:
      return {"cudaErrorInvalidDevice", "invalid device ordinal"};
    case cudaErrorInvalidResourceHandle:
      return {"cudaErrorInvalidResourceHandle", "invalid resource handle"};
    case cudaErrorNotReady:
      return {"cudaErrorNotReady", "device not ready"};
    case cudaErrorIllegalAddress:
      return {"cudaErrorIllegalAddress", "an illegal memory access was encountered"};
    case cudaErrorLaunchFailure:
      return {"cudaErrorLaunchFailure", "unspecified launch failure"};
    case cudaErrorCapturedEvent:
      return {"cudaErrorCapturedEvent",
              "operation not permitted on an event last recorded in a capturing stream"};
    case cudaErrorStreamCaptureUnsupported:
      return {"cudaErrorStreamCaptureUnsupported",
              "operation not permitted when stream is capturing"};
    case cudaErrorStreamCaptureInvalidated:
      return {"cudaErrorStreamCaptureInvalidated",
              "operation failed due to a previous error during capture"};
    case cudaErrorStreamCaptureMerge:
      return {"cudaErrorStreamCaptureMerge", "operation would result in a merge of captures"};
    case cudaErrorStreamCaptureUnmatched:
      return {"cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream"};
    case cudaErrorStreamCaptureUnjoined:
      return {"cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"};
    case cudaErrorStreamCaptureIsolation:
      return {"cudaErrorStreamCaptureIsolation",
              "dependency created on uncaptured work in another stream"};
    case cudaErrorStreamCaptureWrongThread:
      return {"cudaErrorStreamCaptureWrongThread", "attempt to end a capture of another thread"};
    default:
      return {"cudaErrorUnknown", "unknown error"};
  }
}

}  // namespace

// The API. What is done is told to the thread sanitizer outside of `call`.
// NOLINTBEGIN(readability-identifier-naming): parameters have the names of the declarations
cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&](Runtime& /*runtime*/) {
    *count = kDevices;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&](Runtime& /*runtime*/) {
    *device = current_device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](Runtime& /*runtime*/) {
    if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
    current_device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return call("cudaGetDeviceProperties", [&](Runtime& runtime) {
    if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
    *prop = {};
    std::strncpy(prop->name, "Some Threads", sizeof(prop->name) - 1);
    prop->totalGlobalMem = runtime.trouble.room.device;
    prop->multiProcessorCount = 3;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  return call("cudaDriverGetVersion", [&](Runtime& /*runtime*/) {
    *driverVersion = 13000;
    return cudaSuccess;
  });
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) { return words_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return words_of(error).text; }

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&](Runtime& runtime) {
    *total = runtime.trouble.room.device;
    *free = *total - std::min(*total, sum_of(runtime.allocated, current_device));
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** devPtr, std::size_t size) {
  return call("cudaMalloc", [&](Runtime& runtime) {
    if (const cudaError_t code = check_not_capturing(); code != cudaSuccess) return code;
    if (sum_of(runtime.allocated, current_device) + size > runtime.trouble.room.device) {
      return cudaErrorMemoryAllocation;
    }
    *devPtr = ::operator new(size, std::align_val_t{512});
    std::memset(*devPtr, 0xCD, size);
    runtime.allocated[static_cast<std::byte*>(*devPtr)] = {.size = size, .device = current_device};
    ++runtime.living.allocations;
    return cudaSuccess;
  });
}

// Waits for everything, as CUDA does.
cudaError_t cudaFree(void* devPtr) {
  return call(
      "cudaFree",
      [&](Runtime& runtime) {
        if (devPtr == nullptr) return cudaSuccess;
        if (const cudaError_t code = check_not_capturing(); code != cudaSuccess) return code;
        const auto found = runtime.allocated.find(static_cast<std::byte*>(devPtr));
        if (found == runtime.allocated.end()) return cudaErrorInvalidValue;
        StreamWorkers::get().wait_for_all();
        runtime.allocated.erase(found);
        --runtime.living.allocations;
        ::operator delete(devPtr, std::align_val_t{512});
        return cudaSuccess;
      },
      Gives::kBack);
}

cudaError_t cudaHostRegister(void* ptr, std::size_t size, unsigned /*flags*/) {
  return call("cudaHostRegister", [&](Runtime& runtime) {
    if (const cudaError_t code = check_not_capturing(); code != cudaSuccess) return code;
    if (sum_of(runtime.pinned, 0) + size > runtime.trouble.room.pinned) {
      return cudaErrorMemoryAllocation;
    }
    runtime.pinned[static_cast<std::byte*>(ptr)] = {.size = size};
    ++runtime.living.pinned;
    return cudaSuccess;
  });
}

// Does not wait: who still uses the memory will find it gone.
cudaError_t cudaHostUnregister(void* ptr) {
  return call(
      "cudaHostUnregister",
      [&](Runtime& runtime) {
        const auto found = runtime.pinned.find(static_cast<std::byte*>(ptr));
        if (found == runtime.pinned.end()) return cudaErrorInvalidValue;
        const std::string user = StreamWorkers::get().user_of(found->first, found->second.size);
        if (!user.empty()) {
          StreamWorkers::get().add_fault(fmt::format("'{}' still uses what was pinned", user));
          StreamWorkers::get().wait_for_all();
        }
        runtime.pinned.erase(found);
        --runtime.living.pinned;
        return cudaSuccess;
      },
      Gives::kBack);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&](Runtime& runtime) {
    if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;  // not played here
    auto made = std::make_unique<CUstream_st>();
    made->device = current_device;
    made->worker = StreamWorkers::get().take();
    *stream = made.release();
    ++runtime.living.streams;
    return cudaSuccess;
  });
}

// What was put in goes on.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call(
      "cudaStreamDestroy",
      [&](Runtime& runtime) {
        const std::unique_ptr<CUstream_st> owned(stream);
        StreamWorkers::get().give_back(owned->worker);
        --runtime.living.streams;
        return cudaSuccess;
      },
      Gives::kBack);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  OperationPtr last;
  const cudaError_t code = call("cudaStreamSynchronize", [&](Runtime& runtime) {
    cudaStream_t of = runtime.stream_of(stream);
    if (of->capture != nullptr) return invalidate(of->capture, cudaErrorStreamCaptureUnsupported);
    last = of->last;
    return cudaSuccess;
  });
  if (last != nullptr) StreamWorkers::get().wait(last);
  return code;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  return call("cudaStreamWaitEvent", [&](Runtime& runtime) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    cudaStream_t of = runtime.stream_of(stream);
    return event->capture != nullptr ? wait_captured(runtime, of, *event)
                                     : wait_recorded(runtime, of, *event);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&](Runtime& runtime) {
    auto made = std::make_unique<CUevent_st>();
    made->device = current_device;
    made->flags = flags;
    *event = made.release();
    ++runtime.living.events;
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call(
      "cudaEventDestroy",
      [&](Runtime& runtime) {
        const std::unique_ptr<CUevent_st> owned(event);
        --runtime.living.events;
        return cudaSuccess;
      },
      Gives::kBack);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const OperationPtr operation = Operation::make({.name = "a record", .touches = {}, .run = {}});
  return call("cudaEventRecord", [&](Runtime& runtime) {
    cudaStream_t of = runtime.stream_of(stream);
    if (event == nullptr || event->device != of->device) return cudaErrorInvalidResourceHandle;
    if (of->capture != nullptr) {
      if (!of->capture->is_valid) return cudaErrorStreamCaptureInvalidated;
      event->record = nullptr;
      event->capture = of->capture;
      event->tips = of->tips;
      return cudaSuccess;
    }
    put(of, operation, {});
    event->record = operation;
    event->capture = nullptr;
    event->tips.clear();
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return call("cudaEventElapsedTime", [&](Runtime& /*runtime*/) {
    for (const CUevent_st* event : {start, end}) {
      if (event == nullptr || (event->flags & cudaEventDisableTiming) != 0) {
        return cudaErrorInvalidResourceHandle;
      }
      if (event->capture != nullptr) return cudaErrorCapturedEvent;
      if (event->record == nullptr) return cudaErrorInvalidResourceHandle;
      if (!StreamWorkers::get().is_done(*event->record)) return cudaErrorNotReady;
    }
    const std::chrono::duration<float, std::milli> passed = end->record->end - start->record->end;
    *ms = passed.count();
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t count, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  const OperationPtr operation =
      Operation::make({.name = "a copy",
                       .touches = {touch(src, count, false), touch(dst, count, true)},
                       .run = [=] {
                         if (count > 0) std::memcpy(dst, src, count);  // of nothing, from nowhere
                       }});
  return call("cudaMemcpyAsync",
              [&](Runtime& runtime) { return submit(runtime.stream_of(stream), operation); });
}

// In the default stream, and not waited for.
cudaError_t cudaMemset(void* devPtr, int value, std::size_t count) {
  const OperationPtr operation =
      Operation::make({.name = "a memset", .touches = {touch(devPtr, count, true)}, .run = [=] {
                         std::memset(devPtr, value, count);
                       }});
  return call("cudaMemset", [&](Runtime& runtime) {
    if (const cudaError_t code = check_not_capturing(); code != cudaSuccess) return code;
    return submit(runtime.stream_of(nullptr), operation);
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&](Runtime& runtime) {
    if (stream == nullptr || mode != cudaStreamCaptureModeThreadLocal) {
      return cudaErrorInvalidValue;  // another mode is not played here
    }
    if (stream->capture != nullptr) return cudaErrorInvalidValue;
    stream->capture = std::make_shared<Capture>();
    stream->capture->thread = std::this_thread::get_id();
    stream->capture->streams = {stream};
    stream->lane = 0;
    stream->tips.clear();
    std::erase_if(captures(), [](const auto& each) { return each.expired(); });
    captures().push_back(stream->capture);
    ++runtime.living.captures;
    return cudaSuccess;
  });
}

// Whatever it says, nobody captures any more, unless it was not called for the right stream.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call(
      "cudaStreamEndCapture",
      [&](Runtime& runtime) {
        *graph = nullptr;
        const std::shared_ptr<Capture> capture = stream->capture;
        if (capture == nullptr) return cudaErrorInvalidValue;
        if (capture->streams[0] != stream) {
          return invalidate(capture, cudaErrorStreamCaptureUnmatched);
        }
        if (capture->thread != std::this_thread::get_id()) return cudaErrorStreamCaptureWrongThread;
        cudaError_t code = cudaSuccess;
        if (!capture->is_valid) {
          code = cudaErrorStreamCaptureInvalidated;
        } else if (!is_joined(*capture)) {
          code = cudaErrorStreamCaptureUnjoined;
        } else {
          *graph = std::make_unique<CUgraph_st>(
                       CUgraph_st{std::move(capture->nodes), capture->streams.size()})
                       .release();
          ++runtime.living.graphs;
        }
        for (cudaStream_t each : std::exchange(capture->streams, {})) each->capture = nullptr;
        capture->thread = {};
        --runtime.living.captures;
        return code;
      },
      Gives::kBack);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call(
      "cudaGraphDestroy",
      [&](Runtime& runtime) {
        const std::unique_ptr<CUgraph_st> owned(graph);
        --runtime.living.graphs;
        return cudaSuccess;
      },
      Gives::kBack);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  return call("cudaGraphInstantiate", [&](Runtime& runtime) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    auto made = std::make_unique<CUgraphExec_st>();
    made->graph = *graph;
    for (std::size_t i = 0; i < graph->lanes; ++i) {
      made->workers.push_back(StreamWorkers::get().take());
    }
    *pGraphExec = made.release();
    ++runtime.living.executables;
    return cudaSuccess;
  });
}

// What was launched goes on.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return call(
      "cudaGraphExecDestroy",
      [&](Runtime& runtime) {
        const std::unique_ptr<CUgraphExec_st> owned(graphExec);
        for (const std::uint32_t worker : owned->workers) StreamWorkers::get().give_back(worker);
        --runtime.living.executables;
        return cudaSuccess;
      },
      Gives::kBack);
}

// There is nothing to put anywhere.
cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return call("cudaGraphUpload", [&](Runtime& runtime) {
    cudaStream_t of = runtime.stream_of(stream);
    if (graphExec == nullptr) return cudaErrorInvalidValue;
    if (of->capture != nullptr) return invalidate(of->capture, cudaErrorStreamCaptureUnsupported);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  const OperationPtr begin = Operation::make();
  return call("cudaGraphLaunch", [&](Runtime& runtime) {
    cudaStream_t of = runtime.stream_of(stream);
    if (graphExec == nullptr) return cudaErrorInvalidValue;
    if (of->capture != nullptr) return invalidate(of->capture, cudaErrorStreamCaptureUnsupported);
    put(of, begin, {});
    std::vector<OperationPtr> operations;
    for (const Node& node : graphExec->graph.nodes) {
      std::vector<OperationPtr> after{begin};
      for (const std::size_t each : node.after) after.push_back(operations[each]);
      operations.push_back(Operation::make(node.job));
      StreamWorkers::get().put(graphExec->workers[node.lane], operations.back(), after);
    }
    put(of, Operation::make(), std::move(operations));
    return cudaSuccess;
  });
}
// NOLINTEND(readability-identifier-naming)

namespace ebb::threaded_cuda {

cudaError_t launch(cudaStream_t stream, Job job) {
  const OperationPtr operation = Operation::make(std::move(job));
  return call("a launch",
              [&](Runtime& runtime) { return submit(runtime.stream_of(stream), operation); });
}

Living living() {
  const Unseen unseen;
  const std::scoped_lock lock(Runtime::get().mutex);
  return Runtime::get().living;
}

void make_trouble(const Trouble& trouble) {
  const Unseen unseen;
  const std::scoped_lock lock(Runtime::get().mutex);
  Runtime::get().trouble = trouble;
  Runtime::get().happened = {};
}

Happened happened() {
  const Unseen unseen;
  const std::scoped_lock lock(Runtime::get().mutex);
  return Runtime::get().happened;
}

}  // namespace ebb::threaded_cuda
