#include <dlfcn.h>

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/exec/cuda_backend.h"
#include "ebb/torch/allocator.h"
#include "ebb/torch/gpu.h"

namespace ebb::torch {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using caching::CUDAAllocator;

constexpr auto kGpu = exec::MemoryKind::kGpu;

CUDAAllocator* original = nullptr;  // set once, before ours is installed

void keep(void* /*arena*/) {}

// Gives memory back that came through us, by its address alone.
void give_back(void* memory) {
  if (!is_of_arena(memory, kGpu)) {
    note_given_back(memory, kGpu);
    original->raw_delete(memory);
  }
}

// Serves and records allocations; everything else is the original's business.
class DelegatingGpuAllocator final : public CUDAAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (std::byte* served = serve(bytes, kGpu); served != nullptr) {
      return {served, served, &keep, device()};
    }
    c10::DataPtr memory = original->allocate(bytes);
    if (!is_recording(kGpu) || bytes == 0) return memory;
    note_request(memory.get(), bytes, kGpu);
    void* data = memory.release_context();
    return {data, data, &give_back, memory.device()};
  }

  void* raw_alloc(std::size_t bytes) override {
    if (std::byte* served = serve(bytes, kGpu); served != nullptr) return served;
    void* memory = original->raw_alloc(bytes);
    note_request(memory, bytes, kGpu);
    return memory;
  }
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
    if (std::byte* served = serve(bytes, kGpu); served != nullptr) return served;
    void* memory = original->raw_alloc_with_stream(bytes, stream);
    note_request(memory, bytes, kGpu);
    return memory;
  }
  void raw_delete(void* memory) override { give_back(memory); }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  // Memory of an arena is nobody's to hold back.
  void recordStream(const c10::DataPtr& memory, c10::cuda::CUDAStream stream) override {
    if (memory.get_deleter() == &keep) return;
    original->recordStream(memory, stream);
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    original->copy_data(to, from, bytes);
  }
  bool initialized() override { return original->initialized(); }
  void emptyCache(c10::MempoolId_t pool) override { original->emptyCache(pool); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return original->getDeviceStats(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    original->resetAccumulatedStats(device);
  }
  void resetPeakStats(c10::DeviceIndex device) override { original->resetPeakStats(device); }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return original->getMemoryInfo(device);
  }
  void init(int devices) override { original->init(devices); }
  double getMemoryFraction(c10::DeviceIndex device) override {
    return original->getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    original->setMemoryFraction(fraction, device);
  }
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override {
    return original->getExpandableSegmentSizes(device);
  }
  void enable(bool value) override { original->enable(value); }
  [[nodiscard]] bool isEnabled() const override { return original->isEnabled(); }
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override {
    original->cacheInfo(device, largest);
  }
  void* getBaseAllocation(void* memory, std::size_t* size) override {
    return original->getBaseAllocation(memory, size);
  }
  caching::SnapshotInfo snapshot(c10::MempoolId_t pool, bool traces) override {
    return original->snapshot(pool, traces);
  }
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    original->beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    original->endAllocateToPool(device, pool);
  }
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    original->releasePool(device, pool);
  }
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    return original->getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    original->createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use) override {
    original->setUseOnOOM(device, pool, use);
  }
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    original->setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return original->checkPoolLiveAllocations(device, pool, expected);
  }
  caching::ShareableHandle shareIpcHandle(void* memory) override {
    return original->shareIpcHandle(memory);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return original->getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override { return original->isHistoryEnabled(); }
  void recordHistory(bool enabled, caching::CreateContextFn recorder, std::size_t entries,
                     caching::RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override {
    original->recordHistory(enabled, recorder, entries, when, clear, skipped);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& notes) override {
    original->recordAnnotation(notes);
  }
  void pushCompileContext(std::string& context) override { original->pushCompileContext(context); }
  void popCompileContext() override { original->popCompileContext(); }
  void setUserMetadata(const std::string& metadata) override {
    original->setUserMetadata(metadata);
  }
  std::string getUserMetadata() override { return original->getUserMetadata(); }
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    original->attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override {
    original->attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex other) override {
    original->enablePeerAccess(device, other);
  }
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device,
                          std::size_t bytes, cudaStream_t stream, bool peer) override {
    return original->memcpyAsync(to, to_device, from, from_device, bytes, stream, peer);
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                              c10::MempoolId_t pool) override {
    return original->getCheckpointState(device, pool);
  }
  caching::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) override {
    return original->setCheckpointPoolState(device, std::move(state));
  }
  std::string name() override { return original->name(); }

 private:
  static c10::Device device() { return {c10::DeviceType::CUDA, c10::cuda::current_device()}; }
};

}  // namespace

Status check_gpu(int device) {
  if (Status ok = exec::check_cuda(device); !ok) return ok;
  // A program without Python has loaded the CPU's kernels only: the others take seconds. Before
  // PyTorch is asked anything about CUDA, because it remembers that there was none.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return fail(ErrorKind::kUsage,
                fmt::format("PyTorch's CUDA library cannot be loaded: {}", printable(dlerror())));
  }
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return {};
}

Result<std::unique_ptr<exec::Backend>> make_gpu_backend(int device) {
  if (Status ok = check_gpu(device); !ok) return fail(ok.error());
  auto backend = exec::make_cuda_backend(device);
  if (!backend) return fail(std::move(backend.error()));
  return std::unique_ptr<exec::Backend>(std::move(*backend));
}

void install_gpu_allocator() {
  static DelegatingGpuAllocator* const kOurs = [] {
    original = caching::get();
    auto* made = new DelegatingGpuAllocator();  // NOLINT(*-owning-memory): storages point to it
    caching::allocator.store(made);
    return made;
  }();
  EBB_CHECK(caching::get() == kOurs, "somebody replaced the GPU allocator of PyTorch");
}

void release_gpu_cache() { caching::emptyCache(); }

struct GpuScope::Streams {
  Streams(exec::CudaBackend& used, c10::cuda::CUDAStream stream) : backend(used), guard(stream) {
    backend.enter();
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() { backend.leave(); }

  exec::CudaBackend& backend;
  c10::cuda::CUDAStreamGuard guard;
};

GpuScope::GpuScope(exec::Backend& backend) {
  auto& cuda = dynamic_cast<exec::CudaBackend&>(backend);
  const auto device = static_cast<c10::DeviceIndex>(cuda.device());
  cuda.follow(c10::cuda::getCurrentCUDAStream(device).stream());
  streams_ = std::make_unique<Streams>(
      cuda,
      c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(cuda.compute_stream()), device));
}

GpuScope::~GpuScope() = default;

}  // namespace ebb::torch
