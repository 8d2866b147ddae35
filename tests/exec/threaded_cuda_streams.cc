// Streams, events, copies, captures and graphs of the CUDA runtime made of threads.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/exec/threaded_cuda_runtime.h"

namespace {

using ebb::Operation;
using ebb::OperationPtr;
using ebb::StreamWorkers;
using ebb::threaded_cuda::call;
using ebb::threaded_cuda::Capture;
using ebb::threaded_cuda::captures;
using ebb::threaded_cuda::check_not_capturing;
using ebb::threaded_cuda::current_device;
using ebb::threaded_cuda::Gives;
using ebb::threaded_cuda::invalidate;
using ebb::threaded_cuda::Node;
using ebb::threaded_cuda::put;
using ebb::threaded_cuda::Runtime;
using ebb::threaded_cuda::submit;
using ebb::threaded_cuda::Tips;

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

}  // namespace

// What is done is told to the thread sanitizer outside of `call`.
// NOLINTBEGIN(readability-identifier-naming): parameters have the names of the declarations
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
