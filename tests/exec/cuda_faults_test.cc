// Whatever function of CUDA's fails, once or for good: what is said, what is left behind, and
// whether it can be used again. On a CUDA runtime made of threads (threaded_cuda.h).
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/exec/cuda_backend.h"
#include "ebb/exec/cuda_lanes.h"
#include "tests/exec/compiled.h"
#include "tests/exec/cuda_stage.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/runnable_graph.h"
#include "tests/exec/threaded_cuda.h"
#include "tests/meaning/random_decisions.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

using threaded_cuda::happened;
using threaded_cuda::living;
using threaded_cuda::make_trouble;

constexpr LowerOptions kOptions{.alignment = Bytes{512}};

class CudaFaults : public testing::Test {
 protected:
  void SetUp() override { make_trouble({}); }
  void TearDown() override {
    make_trouble({});
    StreamWorkers::get().dawdle(0);
    EXPECT_EQ(take_trouble(), "");
  }
};

// The shortest of some programs that have something to wait for, and can be kept.
std::pair<Graph, Compiled> small_step() {
  HashKernels kernels;
  std::vector<std::pair<Graph, Compiled>> best;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Graph graph = runnable_graph(seed, 6);
    Compiled compiled = compile(rewritten_at_random(graph, seed, 30), kernels, kOptions);
    const auto& instructions = compiled.program.instructions;
    if (compiled.program.waits.size() < 4 ||
        (!best.empty() && instructions.size() >= best.back().second.program.instructions.size()) ||
        std::any_of(instructions.begin(), instructions.end(), [&](const Instruction& each) {
          return compiled.graph.scalar_result(each.node).valid();
        })) {
      continue;
    }
    best.emplace_back(std::move(graph), std::move(compiled));
  }
  return best.back();
}

// All that is done on a GPU, until something fails: what CUDA said then, or how the bits differ.
std::string use_gpu(const Graph& original, const Compiled& compiled) {
  auto backend = exec::make_cuda_backend(0);
  if (!backend) return backend.error().message;
  HashKernels kernels(into_compute_stream(**backend));
  for (const auto manner : {CudaStage::Manner::kTimed, CudaStage::Manner::kKept}) {
    CudaStage stage(**backend, manner);
    std::string difference = find_difference(original, compiled, kernels, stage);
    if (!difference.empty()) return difference;
    if (manner != CudaStage::Manner::kTimed) continue;
    if (const auto times = (*backend)->lanes().times(); !times) return times.error().message;
  }
  const auto free = (*backend)->free_memory();
  return free ? std::string() : free.error().message;
}

TEST_F(CudaFaults, OfAnyCallAreToldInCudasWordsAndLeaveNothingBehind) {
  if (kThreadSanitized) GTEST_SKIP() << "without some waits there are races";
  const auto [original, compiled] = small_step();
  make_trouble({});
  ASSERT_EQ(use_gpu(original, compiled), "");
  const std::size_t calls = happened().calls;
  const threaded_cuda::Living before = living();
  std::set<std::string> told;
  std::set<std::string> borne;
  for (std::size_t i = 1; i <= calls; i += kSanitized ? 7 : 1) {
    StreamWorkers::get().dawdle(i);
    make_trouble({.failing_call = i, .code = cudaErrorLaunchOutOfResources, .room = {}});
    const std::string said = use_gpu(original, compiled);
    const std::string failed = happened().failed;
    make_trouble({});
    ASSERT_EQ(living(), before) << failed << ", call " << i << ": " << said;
    ASSERT_EQ(cudaGetLastError(), cudaSuccess) << failed << ", call " << i << ": " << said;
    const auto faults = StreamWorkers::get().take_faults();
    const auto races = StreamWorkers::get().take_races();
    if (failed.empty()) break;  // no call any more
    if (said.empty()) {
      ASSERT_TRUE(faults.empty() && races.empty()) << failed << ", call " << i;
      borne.insert(failed);
    } else {
      const bool is_told = said.find("(cudaErrorUnknown)") != std::string::npos ||
                           (failed == "cudaGetDeviceCount" &&
                            said == "there is no NVIDIA GPU here that can be used");
      ASSERT_TRUE(is_told) << failed << ", call " << i << ": " << said;
      told.insert(failed);
    }
    ASSERT_EQ(use_gpu(original, compiled) + take_trouble(), "") << "after " << failed;
  }
  if (kSanitized) return;
  // What is put in to be kept is borne: the step is done then as others are. What waits or gives
  // back may hear of what failed before, and there is nobody to tell when it all ends.
  EXPECT_THAT(borne, testing::ElementsAre(
                         "a launch", "cudaEventDestroy", "cudaEventRecord", "cudaFree",
                         "cudaGetDevice", "cudaGraphDestroy", "cudaGraphExecDestroy",
                         "cudaGraphInstantiate", "cudaGraphUpload", "cudaHostUnregister",
                         "cudaMemcpyAsync", "cudaStreamBeginCapture", "cudaStreamDestroy",
                         "cudaStreamEndCapture", "cudaStreamSynchronize", "cudaStreamWaitEvent"));
  EXPECT_THAT(
      told, testing::ElementsAre(
                "a launch", "cudaEventCreateWithFlags", "cudaEventElapsedTime", "cudaEventRecord",
                "cudaFree", "cudaGetDeviceCount", "cudaGetDeviceProperties", "cudaGraphLaunch",
                "cudaHostRegister", "cudaMalloc", "cudaMemGetInfo", "cudaMemcpyAsync", "cudaMemset",
                "cudaStreamCreateWithFlags", "cudaStreamSynchronize", "cudaStreamWaitEvent"));
}

TEST_F(CudaFaults, WhileStreamsAreMadeLeaveNoneBehind) {
  const std::size_t streams = living().streams;
  for (std::size_t i = 1;; ++i) {
    make_trouble({.failing_call = i, .code = cudaErrorMemoryAllocation, .room = {}});
    const auto backend = exec::make_cuda_backend(6);
    if (happened().failed.empty()) {
      ASSERT_TRUE(backend);
      EXPECT_EQ(living().streams, streams + kLaneCount);
      break;
    }
    if (happened().failed != "cudaStreamCreateWithFlags") continue;
    ASSERT_FALSE(backend);
    EXPECT_EQ(living().streams, streams) << i;
    EXPECT_EQ(backend.error().message,
              "cannot make a stream: out of memory (cudaErrorMemoryAllocation)");
  }
}

TEST_F(CudaFaults, OfADeviceThatCannotBeHadDoNotMeanAnother) {
  for (std::size_t i = 1;; ++i) {
    make_trouble({.failing_call = i, .code = cudaErrorMemoryAllocation, .room = {}});
    const auto backend = exec::make_cuda_backend(2);
    if (happened().failed.empty()) break;
    if (happened().failed != "cudaSetDevice" || backend) continue;
    EXPECT_EQ(backend.error().message,
              "the GPU cannot be used: out of memory (cudaErrorMemoryAllocation)");
    int current = -1;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, 0);
    return;
  }
  FAIL() << "it was used without being set";
}

TEST_F(CudaFaults, OfMemoryThatIsShortSayHowMuchIsFree) {
  const auto backend = exec::make_cuda_backend(0).value();
  make_trouble({.room = {.device = 1 << 20}});
  const auto arena = backend->make_arena(Bytes{1 << 21});
  ASSERT_FALSE(arena);
  EXPECT_EQ(arena.error().kind, ErrorKind::kInfeasible);
  EXPECT_EQ(arena.error().message,
            "an arena of 2.0 MiB cannot be had on Some Threads: 1.0 MiB are free");
  EXPECT_TRUE(backend->make_arena(Bytes{1 << 20}));
}

TEST_F(CudaFaults, OfPinningSayWhatCanBeDone) {
  const auto backend = exec::make_cuda_backend(0).value();
  make_trouble({.room = {.pinned = 1 << 20}});
  const auto slab = backend->make_host_slab(Bytes{1 << 21}, nullptr);
  ASSERT_FALSE(slab);
  EXPECT_EQ(slab.error().kind, ErrorKind::kInfeasible);
  EXPECT_EQ(slab.error().message,
            "2.0 MiB of host memory cannot be pinned: pinning: out of memory "
            "(cudaErrorMemoryAllocation); end what else uses it, or let the container have more");
  EXPECT_EQ(living().pinned, 0U);
  EXPECT_TRUE(backend->make_host_slab(Bytes{1 << 20}, nullptr));
}

TEST_F(CudaFaults, ForGoodSayThatTheProcessMustStartAgain) {
  const auto backend = exec::make_cuda_backend(0).value();
  const std::string expected =
      "an illegal memory access was encountered (cudaErrorIllegalAddress); this process can use "
      "the GPU no more, and what it had there is lost: start again from what was saved last";
  make_trouble(
      {.failing_call = 1, .code = cudaErrorIllegalAddress, .is_for_good = true, .room = {}});
  std::byte byte{};
  const std::vector<Status> all = {
      backend->lanes().settle(),
      backend->lanes().replay(),
      backend->copy(&byte, &byte, 1),
      backend->make_arena(Bytes{64}).map([](const auto&) {}),
      backend->make_host_slab(Bytes{64}, nullptr).map([](const auto&) {}),
      backend->free_memory().map([](const auto&) {}),
      backend->describe(std::nullopt).map([](const auto&) {}),
  };
  for (const Status& status : all) {
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message.find(expected), std::string::npos) << status.error().message;
  }
  EXPECT_FALSE(exec::make_cuda_backend(0));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaFaults, OfCopiesGiveNoSpeedOfTheLink) {
  if (kSanitized) GTEST_SKIP() << "it copies much";
  const auto backend = exec::make_cuda_backend(0).value();
  for (std::size_t i = 1; happened().failed != "cudaMemcpyAsync"; ++i) {
    make_trouble({.failing_call = i, .code = cudaErrorLaunchOutOfResources, .room = {}});
    const auto device = backend->describe(std::nullopt);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    if (happened().failed != "cudaMemcpyAsync") continue;
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().message, "measuring the link: unknown error (cudaErrorUnknown)");
  }
}

}  // namespace
}  // namespace ebb
