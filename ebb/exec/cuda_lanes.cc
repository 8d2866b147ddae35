#include "ebb/exec/cuda_lanes.h"

#include <cmath>
#include <map>
#include <memory>

#include <fmt/format.h>

namespace ebb::exec {
namespace {

constexpr std::array kLanes = {Lane::kCompute, Lane::kToHost, Lane::kToDevice};
constexpr std::array kCopyLanes = {Lane::kToHost, Lane::kToDevice};

void destroy(std::vector<cudaEvent_t>& events) {
  for (cudaEvent_t event : events) {
    if (event != nullptr) ignore(cudaEventDestroy(event));
  }
}

}  // namespace

bool is_for_good(cudaError_t code) {
  switch (code) {
    case cudaErrorAssert:
    case cudaErrorContained:
    case cudaErrorECCUncorrectable:
    case cudaErrorExternalDevice:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorMpsClientTerminated:
    case cudaErrorTensorMemoryLeak:
      return true;
    default:
      return false;
  }
}

Error cuda_error(cudaError_t code, const char* what) {
  static_cast<void>(cudaGetLastError());  // it has been heard of
  const bool is_short = code == cudaErrorMemoryAllocation;
  const auto* end = is_for_good(code) ? "; this process can use the GPU no more, and what it had "
                                        "there is lost: start again from what was saved last"
                                      : "";
  return {.kind = is_short ? ErrorKind::kInfeasible : ErrorKind::kBadInput,
          .code = {},
          .message = fmt::format("{}: {} ({}){}", what, cudaGetErrorString(code),
                                 cudaGetErrorName(code), end),
          .place = {}};
}

void ignore(cudaError_t code) {
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
}

Result<CudaLanes::Streams*> CudaLanes::streams_of(int device) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Streams>>& known =
      *new std::map<int, std::unique_ptr<Streams>>;  // NOLINT(*-owning-memory): steps may end later
  const std::scoped_lock lock(mutex);
  std::unique_ptr<Streams>& streams = known[device];
  if (streams != nullptr) return streams.get();
  auto made = std::make_unique<Streams>();
  for (cudaStream_t& stream : made->lanes) {
    const cudaError_t code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (code == cudaSuccess) continue;
    for (cudaStream_t other : made->lanes) {
      if (other != nullptr) ignore(cudaStreamDestroy(other));
    }
    return fail(cuda_error(code, "cannot make a stream"));
  }
  streams = std::move(made);
  return streams.get();
}

Status CudaLanes::open(int device) {
  auto streams = streams_of(device);
  if (!streams) return fail(std::move(streams.error()));
  streams_ = *streams;
  for (auto [event, flags] : {std::pair(&meeting_, unsigned{cudaEventDisableTiming}),
                              std::pair(&began_, unsigned{cudaEventDefault})}) {
    const cudaError_t code = cudaEventCreateWithFlags(event, flags);
    if (code != cudaSuccess) return fail(cuda_error(code, "cannot make an event"));
  }
  return {};
}

CudaLanes::~CudaLanes() {
  if (streams_ != nullptr) {
    drop_next();
    enter();
    for (const Lane lane : kLanes) ignore(cudaStreamSynchronize(stream(lane)));
    leave();
  }
  if (kept_ != nullptr) ignore(cudaGraphExecDestroy(kept_));
  destroy(done_);
  destroy(starts_);
  destroy(ends_);
  if (meeting_ != nullptr) ignore(cudaEventDestroy(meeting_));
  if (began_ != nullptr) ignore(cudaEventDestroy(began_));
}

void CudaLanes::note(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  Error error = cuda_error(code, what);  // heard of, or whoever asks next would take it for his own
  if (status_) status_ = fail(std::move(error));
}

Status CudaLanes::take_error() {
  Status status = std::move(status_);
  status_ = {};
  return status;
}

cudaEvent_t CudaLanes::event(std::vector<cudaEvent_t>& events, std::size_t i, unsigned flags) {
  if (events.size() <= i) events.resize(i + 1, nullptr);
  if (events[i] == nullptr) note(cudaEventCreateWithFlags(&events[i], flags), "making an event");
  return events[i];
}

void CudaLanes::meet(cudaStream_t first, cudaStream_t then, cudaEvent_t event) {
  note(cudaEventRecord(event, first), "recording an event");
  note(cudaStreamWaitEvent(then, event, 0), "waiting for an event");
}

void CudaLanes::enter() {
  std::unique_lock lock(streams_->guests);
  streams_->kept.wait(lock, [&] { return !streams_->is_keeping; });
  ++streams_->inside;
}

void CudaLanes::leave() {
  const std::scoped_lock lock(streams_->guests);
  --streams_->inside;
}

// Recording begins at once: if it did not at begin(), the step would be done instead of kept.
bool CudaLanes::keep_next() {
  {
    const std::scoped_lock lock(streams_->guests);
    if (streams_->inside != 1 || streams_->is_keeping) return false;
    streams_->is_keeping = true;
  }
  turn_ = std::unique_lock(streams_->mutex);
  meet(caller_, stream(Lane::kCompute), meeting_);
  if (status_) {
    note(cudaStreamBeginCapture(stream(Lane::kCompute), cudaStreamCaptureModeThreadLocal),
         "keeping a step");
  }
  keeps_ = status_.has_value();
  if (keeps_) return true;
  // The caller records himself, say: steps go on as they did.
  [[maybe_unused]] const Status why = take_error();
  stop_keeping();
  return false;
}

void CudaLanes::drop_next() {
  if (!keeps_) return;
  cudaGraph_t graph = nullptr;
  note(cudaStreamEndCapture(stream(Lane::kCompute), &graph), "keeping a step");
  if (graph != nullptr) ignore(cudaGraphDestroy(graph));
  [[maybe_unused]] const Status why = take_error();
  stop_keeping();
}

void CudaLanes::stop_keeping() {
  keeps_ = false;
  turn_ = {};
  const std::scoped_lock lock(streams_->guests);
  streams_->is_keeping = false;
  streams_->kept.notify_all();
}

void CudaLanes::begin(std::size_t instructions, bool is_timed) {
  times_step_ = is_timed;
  is_timed_.assign(is_timed ? instructions : 0, false);
  is_used_ = {};
  if (!keeps_) {
    turn_ = std::unique_lock(streams_->mutex);
    meet(caller_, stream(Lane::kCompute), meeting_);
  }
  note(cudaEventRecord(began_, stream(Lane::kCompute)), "recording an event");
}

// After an error nothing more is put in, here and below: where a wait is missing, a copy would meet
// what it was to wait for, and in a step that is to be kept it could be done at once.
void CudaLanes::wait(Lane lane, std::uint32_t instruction) {
  if (!status_) return;
  note(cudaStreamWaitEvent(stream(lane), event(done_, instruction, cudaEventDisableTiming), 0),
       "waiting for an event");
}

void CudaLanes::join(Lane lane) {
  bool& is_used = is_used_[static_cast<std::size_t>(lane)];
  if (!is_used && lane != Lane::kCompute) {
    note(cudaStreamWaitEvent(stream(lane), began_, 0), "waiting for an event");
  }
  is_used = true;
}

void CudaLanes::start(Lane lane, std::uint32_t instruction) {
  if (!status_) return;
  join(lane);
  if (!times_step_) return;
  note(cudaEventRecord(event(starts_, instruction, cudaEventDefault), stream(lane)), "timing");
}

void CudaLanes::copy(Lane lane, std::byte* to, const std::byte* from, std::size_t size) {
  if (status_) join(lane);
  if (status_) note(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream(lane)), "copying");
}

void CudaLanes::finish(Lane lane, std::uint32_t instruction) {
  if (!status_) return;
  note(cudaEventRecord(event(done_, instruction, cudaEventDisableTiming), stream(lane)),
       "recording an event");
  if (!times_step_) return;
  note(cudaEventRecord(event(ends_, instruction, cudaEventDefault), stream(lane)), "timing");
  is_timed_[instruction] = true;
}

Status CudaLanes::end() {
  for (const Lane lane : kCopyLanes) {
    if (is_used_[static_cast<std::size_t>(lane)]) {
      meet(stream(lane), stream(Lane::kCompute), meeting_);
    }
  }
  const bool was_kept = keeps_;
  if (was_kept) end_keeping();
  meet(stream(Lane::kCompute), caller_, meeting_);
  // Some wait may be missing: what comes next must not meet what is still under way.
  if (!status_) {
    for (const Lane lane : kLanes) note(cudaStreamSynchronize(stream(lane)), "in the step");
  }
  if (was_kept) stop_keeping();
  turn_ = {};
  return take_error();
}

// What was put in is a graph of CUDA's now. It goes to the device here and not when it is first
// launched: where there is no memory for it, steps go on as they did.
void CudaLanes::end_keeping() {
  cudaGraph_t graph = nullptr;
  note(cudaStreamEndCapture(stream(Lane::kCompute), &graph), "keeping a step");
  if (status_) {
    if (kept_ != nullptr) ignore(cudaGraphExecDestroy(kept_));
    kept_ = nullptr;
    note(cudaGraphInstantiate(&kept_, graph, 0), "keeping a step");
  }
  if (status_) note(cudaGraphUpload(kept_, stream(Lane::kCompute)), "keeping a step");
  if (graph != nullptr) ignore(cudaGraphDestroy(graph));
}

Status CudaLanes::replay() {
  const std::scoped_lock turn(streams_->mutex);
  meet(caller_, stream(Lane::kCompute), meeting_);
  if (status_) note(cudaGraphLaunch(kept_, stream(Lane::kCompute)), "doing a kept step");
  if (!status_) return take_error();
  meet(stream(Lane::kCompute), caller_, meeting_);
  // It is under way all the same. So the caller waits himself instead of his stream; if that fails,
  // the step has, and who asks next is told.
  if (!status_) {
    status_ = {};
    note(cudaStreamSynchronize(stream(Lane::kCompute)), "in the step");
  }
  return {};
}

// To wait for a lane that somebody keeps a step in would spoil it.
Status CudaLanes::settle() {
  enter();
  note(cudaStreamSynchronize(stream(Lane::kCompute)), "in the step");
  leave();
  return take_error();
}

Result<std::vector<Interval>> CudaLanes::times() {
  if (Status ok = settle(); !ok) return fail(std::move(ok.error()));
  std::vector<Interval> times(is_timed_.size());
  const auto since_begin = [&](cudaEvent_t event) {
    float passed = 0;
    note(cudaEventElapsedTime(&passed, began_, event), "timing");
    return Duration(std::llround(static_cast<double>(passed) * 1e6));
  };
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (is_timed_[i]) times[i] = {since_begin(starts_[i]), since_begin(ends_[i])};
  }
  if (Status ok = take_error(); !ok) return fail(std::move(ok.error()));
  return times;
}

}  // namespace ebb::exec
