#include "ebb/exec/cuda_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "ebb/exec/cuda_lanes.h"

namespace ebb::exec {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Makes a device the current one for a scope, or says why that cannot be: what is done then would
// be done on another one.
class OnDevice {
 public:
  explicit OnDevice(int device) : before_(current()) {
    if (before_ == device) return;
    const cudaError_t code = cudaSetDevice(device);
    was_set_ = code == cudaSuccess;
    if (!was_set_) status_ = fail(cuda_error(code, "the GPU cannot be used"));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  // To set a device makes a context there, which takes memory.
  ~OnDevice() {
    if (was_set_) ignore(cudaSetDevice(before_));
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  static int current() {
    int device = 0;
    ignore(cudaGetDevice(&device));
    return device;
  }

  int before_;
  bool was_set_ = false;
  Status status_;
};

// Around what is put into the lanes beside steps: nobody keeps one then.
class Inside {
 public:
  explicit Inside(CudaLanes& lanes) : lanes_(lanes) { lanes_.enter(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { lanes_.leave(); }

 private:
  CudaLanes& lanes_;
};

// Measures how fast copies are.
class LinkMeter {
 public:
  LinkMeter(CudaLanes& lanes, std::byte* device, std::byte* host)
      : lanes_(lanes), device_(device), host_(host) {}

  // Seconds for copies of `size`, each way so often, both ways at once. The best of some attempts:
  // the first copies of a process are slower.
  double seconds(std::size_t size, int out, int in) {
    double best = try_once(size, out, in);
    for (int i = 0; i < 3; ++i) best = std::min(best, try_once(size, out, in));
    return best;
  }

  // Of all copies: times of what was not done say nothing.
  [[nodiscard]] cudaError_t code() const { return code_; }

  static constexpr std::size_t kSize = 64 * kMiB;

 private:
  using Clock = std::chrono::steady_clock;

  double try_once(std::size_t size, int out, int in) {
    const auto begin = Clock::now();
    for (int i = 0; i < std::max(out, in); ++i) {
      if (i < out) copy(Lane::kToHost, host_, device_, size);
      if (i < in) copy(Lane::kToDevice, device_ + kSize, host_ + kSize, size);
    }
    note(cudaStreamSynchronize(lanes_.stream(Lane::kToHost)));
    note(cudaStreamSynchronize(lanes_.stream(Lane::kToDevice)));
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void copy(Lane lane, std::byte* to, const std::byte* from, std::size_t size) {
    note(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, lanes_.stream(lane)));
  }

  void note(cudaError_t code) {
    ignore(code);
    if (code_ == cudaSuccess) code_ = code;
  }

  CudaLanes& lanes_;
  std::byte* device_;
  std::byte* host_;
  cudaError_t code_ = cudaSuccess;
};

class Cuda final : public CudaBackend {
 public:
  explicit Cuda(int device) : device_(device) {}

  Status open() {
    const OnDevice on(device_);
    if (!on.status()) return fail(on.status().error());
    // Whatever it is about, the first real call finds out whether the GPU can be used.
    if (const cudaError_t code = cudaFree(nullptr); code != cudaSuccess) {
      return fail(cuda_error(code, "the GPU cannot be used"));
    }
    if (const cudaError_t code = cudaGetDeviceProperties(&properties_, device_);
        code != cudaSuccess) {
      return fail(cuda_error(code, "asking about the GPU"));
    }
    return lanes_.open(device_);
  }

  [[nodiscard]] Bytes alignment() const override { return Bytes{512}; }

  Result<Arena> make_arena(Bytes size) override {
    const OnDevice on(device_);
    if (!on.status()) return fail(on.status().error());
    void* data = nullptr;
    const auto length = static_cast<std::size_t>(std::max<std::int64_t>(size.count, 1));
    if (const cudaError_t code = cudaMalloc(&data, length); code != cudaSuccess) {
      Error error = cuda_error(code, "an arena cannot be had");
      if (error.kind != ErrorKind::kInfeasible) return fail(std::move(error));
      const auto free = free_memory();
      error.message = fmt::format("an arena of {} cannot be had on {}: {} are free", to_human(size),
                                  properties_.name, to_human(free.value_or(Bytes{})));
      return fail(std::move(error));
    }
    Arena arena(static_cast<std::byte*>(data), size, [device = device_](std::byte* block) {
      const OnDevice there(device);
      ignore(cudaFree(block));
    });
    // Done on return: our streams do not wait for the default one, and what they write there first
    // must not be overtaken.
    cudaError_t code = cudaMemset(data, 0, length);
    if (code == cudaSuccess) code = cudaStreamSynchronize(nullptr);
    if (code != cudaSuccess) return fail(cuda_error(code, "clearing an arena"));
    return arena;
  }

  Result<Arena> make_host_slab(Bytes size, const TellPieces& tell) override {
    if (size.count == 0) return Arena::make(size);
    const OnDevice on(device_);
    if (!on.status()) return fail(on.status().error());
    Result<Arena> pages = Arena::make(size);
    if (!pages) return pages;
    const auto length = static_cast<std::size_t>(size.count);
    madvise(pages->data(), length, MADV_HUGEPAGE);
    touch_pages({pages->data(), length}, tell);
    // All at once: a copy across two registrations would be taken for one of memory that is not
    // pinned.
    const cudaError_t code = cudaHostRegister(pages->data(), length, cudaHostRegisterPortable);
    if (code != cudaSuccess) {
      Error error = cuda_error(code, "pinning");
      if (is_for_good(code)) return fail(std::move(error));
      error.message = fmt::format(
          "{} of host memory cannot be pinned: {}; end what else uses it, or let the "
          "container have more",
          to_human(size), error.message);
      error.kind = ErrorKind::kInfeasible;
      return fail(std::move(error));
    }
    auto owner = std::make_shared<Arena>(*std::move(pages));
    std::byte* data = owner->data();
    return Arena(data, size, [owner](std::byte* block) mutable {
      ignore(cudaHostUnregister(block));
      owner.reset();
    });
  }

  Lanes& lanes() override { return lanes_; }

  Status copy(std::byte* to, const std::byte* from, std::size_t size) override {
    const OnDevice on(device_);
    if (!on.status()) return on.status();
    const Inside inside(lanes_);
    lanes_.copy(Lane::kCompute, to, from, size);
    return lanes_.settle();
  }

  Result<Bytes> free_memory() override {
    const OnDevice on(device_);
    if (!on.status()) return fail(on.status().error());
    std::size_t free = 0;
    std::size_t total = 0;
    if (const cudaError_t code = cudaMemGetInfo(&free, &total); code != cudaSuccess) {
      return fail(cuda_error(code, "asking for free memory"));
    }
    return Bytes{static_cast<std::int64_t>(free)};
  }

  Result<Device> describe(const std::optional<Link>& known) override {
    auto device = find_device("h200");  // what is not measured stays as there
    if (!device) return device;
    device->name = properties_.name;
    device->memory = Bytes{static_cast<std::int64_t>(properties_.totalGlobalMem)};
    Result<Link> link = known ? *known : measure_link();
    if (!link) return fail(std::move(link.error()));
    device->link = *link;
    return device;
  }

  [[nodiscard]] void* compute_stream() const override { return lanes_.stream(Lane::kCompute); }
  void follow(void* stream) override { lanes_.follow(static_cast<cudaStream_t>(stream)); }
  void enter() override { lanes_.enter(); }
  void leave() override { lanes_.leave(); }
  [[nodiscard]] std::string hardware() const override {
    int driver = 0;
    ignore(cudaDriverGetVersion(&driver));
    // A share of a GPU has the name of the whole.
    return fmt::format("{}, {} multiprocessors, driver {}", properties_.name,
                       properties_.multiProcessorCount, driver);
  }
  [[nodiscard]] int device() const override { return device_; }

 private:
  Result<Link> measure_link() {
    const OnDevice on(device_);
    if (!on.status()) return fail(on.status().error());
    const Inside inside(lanes_);
    const Bytes room{static_cast<std::int64_t>(2 * LinkMeter::kSize)};
    auto arena = make_arena(room);
    if (!arena) return fail(std::move(arena.error()));
    auto host = make_host_slab(room, nullptr);
    if (!host) return fail(std::move(host.error()));
    LinkMeter meter(lanes_, arena->data(), host->data());
    constexpr int kTimes = 4;
    const double bytes = static_cast<double>(LinkMeter::kSize) * kTimes;
    Link link;
    link.to_host = {bytes / meter.seconds(LinkMeter::kSize, kTimes, 0)};
    link.to_device = {bytes / meter.seconds(LinkMeter::kSize, 0, kTimes)};
    const Bandwidth both{bytes / meter.seconds(LinkMeter::kSize, kTimes, kTimes)};
    link.to_host_both = std::min(link.to_host, both);
    link.to_device_both = std::min(link.to_device, both);
    constexpr int kManyTimes = 50;
    const double small = meter.seconds(kMiB, kManyTimes, 0) / kManyTimes;
    const double moving = static_cast<double>(kMiB) / link.to_host.bytes_per_second;
    link.latency = Duration(std::llround(std::max(0.0, small - moving) * 1e9));
    link.shortest = link.latency;
    if (meter.code() != cudaSuccess) return fail(cuda_error(meter.code(), "measuring the link"));
    return link;
  }

  int device_;
  cudaDeviceProp properties_{};
  CudaLanes lanes_;
};

}  // namespace

Status check_cuda(int device) {
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    return fail(ErrorKind::kUsage, "there is no NVIDIA GPU here that can be used");
  }
  if (device < 0 || device >= count) {
    return fail(ErrorKind::kUsage,
                fmt::format("there is no GPU {} here: they are 0 to {}", device, count - 1));
  }
  return {};
}

Result<std::unique_ptr<CudaBackend>> make_cuda_backend(int device) {
  if (Status ok = check_cuda(device); !ok) return fail(std::move(ok.error()));
  auto backend = std::make_unique<Cuda>(device);
  if (Status ok = backend->open(); !ok) return fail(std::move(ok.error()));
  return backend;
}

}  // namespace ebb::exec
