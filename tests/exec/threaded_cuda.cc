#include "tests/exec/threaded_cuda.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "tests/exec/threaded_cuda_runtime.h"

namespace ebb::threaded_cuda {

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

cudaError_t invalidate(const std::shared_ptr<Capture>& capture, cudaError_t code) {
  capture->is_valid = false;
  return code;
}

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

namespace {

using ebb::StreamWorkers;
using ebb::threaded_cuda::Blocks;
using ebb::threaded_cuda::call;
using ebb::threaded_cuda::check_not_capturing;
using ebb::threaded_cuda::current_device;
using ebb::threaded_cuda::Gives;
using ebb::threaded_cuda::kDevices;
using ebb::threaded_cuda::last_error;
using ebb::threaded_cuda::Runtime;

std::size_t sum_of(const Blocks& blocks, int device) {
  std::size_t sum = 0;
  for (const auto& [data, block] : blocks) sum += block.device == device ? block.size : 0;
  return sum;
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

// Devices, errors and memory. What is done is told to the thread sanitizer outside of `call`.
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
// NOLINTEND(readability-identifier-naming)
