// Steps on a GPU that do not go as planned: they fail in the middle, or others are at work; and
// what is refused. On a CUDA runtime made of threads (threaded_cuda.h).
#include "ebb/exec/cuda_lanes.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "ebb/base/hash_index.h"
#include "ebb/exec/cuda_backend.h"
#include "ebb/exec/executor.h"
#include "ebb/graph/parse.h"
#include "tests/exec/compiled.h"
#include "tests/exec/cuda_stage.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/runnable_graph.h"
#include "tests/exec/threaded_cuda.h"
#include "tests/meaning/random_decisions.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

using exec::CudaBackend;
using Manner = CudaStage::Manner;
using std::chrono::milliseconds;

std::unique_ptr<CudaBackend> make_backend() { return exec::make_cuda_backend(0).value(); }

// Both directions of the link are used before and after an operation that may misbehave.
constexpr const char* kStep = R"(graph step {
  input %x: f32[256]
  param %w: f32[256]
  scalar $bad: f64
  %x.host: f32[256] @host = ebb::swap_out(%x)
  %a: f32[256] = my::op(%x, %w)
  %a.host: f32[256] @host = ebb::swap_out(%a)
  %b: f32[256] = test::throw(%a) {when = $bad}
  %x.back: f32[256] = ebb::swap_in(%x.host) after b
  %c: f32[256] = my::op(%b, %x.back)
  %a.back: f32[256] = ebb::swap_in(%a.host) after c
  %w.1: f32[256] ~ %w = my::add_(%w!, %c, %a.back)
  return %c
}
)";

class CudaLanesTest : public testing::Test {
 protected:
  void SetUp() override {
    threaded_cuda::make_trouble({});
    StreamWorkers::get().dawdle(1);
    ASSERT_EQ(take_trouble(), "");
  }
  void TearDown() override {
    EXPECT_TRUE(lanes_.settle());
    EXPECT_EQ(take_trouble(), "");
    StreamWorkers::get().dawdle(0);
    threaded_cuda::make_trouble({});
  }

  Status run(double bad, bool is_timed = false) {
    exec::Scalars scalars(graph_);
    scalars.set(graph_.find_scalar("bad"), bad);
    return executor_.run(scalars, nullptr, is_timed);
  }

  void clear(const char* name) {
    const std::string zeros(kSize, '\0');
    EXPECT_TRUE(
        backend_->copy(place(name), reinterpret_cast<const std::byte*>(zeros.data()), kSize));
  }
  [[nodiscard]] std::uint64_t digest(const char* name) {
    std::string bytes(kSize, '?');
    EXPECT_TRUE(backend_->copy(reinterpret_cast<std::byte*>(bytes.data()), place(name), kSize));
    return hash_bytes(bytes);
  }
  [[nodiscard]] std::byte* place(const char* name) const {
    return executor_.place(graph_.find_tensor(name));
  }

  static constexpr std::size_t kSize = 1024;  // of every tensor
  const std::uint64_t zeros_ = hash_bytes(std::string(kSize, '\0'));
  std::unique_ptr<CudaBackend> backend_ = make_backend();
  exec::Lanes& lanes_ = backend_->lanes();
  Graph graph_ = parse_valid(kStep).value();
  HashKernels kernels_{into_compute_stream(*backend_)};
  Compiled compiled_ = compile(graph_, kernels_, {.alignment = Bytes{512}});
  exec::Arena arena_ = backend_->make_arena(compiled_.program.arena_size).value();
  exec::Arena host_ = backend_->make_host_slab(compiled_.program.host_size, nullptr).value();
  exec::Executor executor_ =
      exec::Executor::make(graph_, compiled_.program, kernels_, {arena_, host_, lanes_}).value();
};

TEST_F(CudaLanesTest, GoOnAfterAStepThatFailedInTheMiddle) {
  const auto run_twice = [&] {
    clear("w");
    std::vector<std::uint64_t> digests;
    for (int i = 0; i < 2; ++i) {
      clear("x");
      EXPECT_TRUE(run(0));
      digests.push_back(digest("w"));
      digests.push_back(digest("c"));
    }
    return digests;
  };
  const std::vector<std::uint64_t> expected = run_twice();
  clear("w");
  for (int i = 0; i < 10; ++i) {
    const Status failed = run(1);
    ASSERT_FALSE(failed);
    EXPECT_TRUE(failed.error().message.starts_with("the kernel blew up; the state is as before"))
        << failed.error().message;
  }
  EXPECT_EQ(digest("w"), zeros_);
  EXPECT_EQ(run_twice(), expected);
}

TEST_F(CudaLanesTest, DoNothingOfAStepThatWasToBeKeptAndFailed) {
  ASSERT_TRUE(run(0));
  const std::uint64_t w = digest("w");
  const std::uint64_t c = digest("c");
  for (const char* name : {"x", "w", "c"}) clear(name);
  {
    const Inside inside(*backend_);
    ASSERT_TRUE(lanes_.keep_next());
    EXPECT_FALSE(run(1));
  }
  EXPECT_EQ(threaded_cuda::living().captures, 0U);
  EXPECT_EQ(digest("c"), zeros_);
  {
    const Inside inside(*backend_);
    ASSERT_TRUE(lanes_.keep_next());
    ASSERT_TRUE(run(0));
  }
  EXPECT_EQ(digest("w"), zeros_) << "it was kept, not done";
  ASSERT_TRUE(lanes_.replay());
  EXPECT_EQ(digest("w"), w);
  EXPECT_EQ(digest("c"), c);
}

TEST_F(CudaLanesTest, KeepNothingWhereNoStepWasBegun) {
  {
    const Inside inside(*backend_);
    ASSERT_TRUE(lanes_.keep_next());
    EXPECT_EQ(threaded_cuda::living().captures, 1U);
    lanes_.drop_next();
    lanes_.drop_next();
  }
  EXPECT_EQ(threaded_cuda::living().captures, 0U);
  EXPECT_EQ(threaded_cuda::living().graphs, 0U);
  ASSERT_TRUE(run(0));
  EXPECT_NE(digest("w"), zeros_) << "the next step is done at once";
}

TEST_F(CudaLanesTest, SayThatThereIsNoStepToReplay) {
  const Status status = lanes_.replay();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "doing a kept step: invalid argument (cudaErrorInvalidValue)");
  EXPECT_TRUE(run(0));
}

TEST_F(CudaLanesTest, KeepNoStepWhileOthersAreInside) {
  const auto other = make_backend();
  const Inside inside(*backend_);
  {
    const Inside also(*other);
    EXPECT_FALSE(lanes_.keep_next());
    EXPECT_FALSE(other->lanes().keep_next());
  }
  ASSERT_TRUE(lanes_.keep_next());
  EXPECT_FALSE(other->lanes().keep_next());
  lanes_.drop_next();
}

TEST_F(CudaLanesTest, LetNobodyInWhileAStepIsKept) {
  std::atomic<bool> is_kept = false;
  std::vector<std::thread> threads;
  std::atomic<int> too_soon = 0;
  const auto other = make_backend();
  auto dying = make_backend();
  const std::string zeros(16, '\0');
  std::string copied(16, '?');
  const exec::Arena arena = other->make_arena(Bytes{16}).value();
  {
    const Inside inside(*backend_);
    ASSERT_TRUE(lanes_.keep_next());
    const auto add = [&](auto work) {
      threads.emplace_back([&, work] {
        work();
        if (!is_kept) ++too_soon;
      });
    };
    add([&] { const Inside also(*other); });
    add([&] { EXPECT_TRUE(other->lanes().settle()); });
    add([&] {
      EXPECT_TRUE(
          other->copy(reinterpret_cast<std::byte*>(copied.data()), arena.data(), copied.size()));
    });
    add([&] { dying.reset(); });
    std::this_thread::sleep_for(milliseconds(20));
    is_kept = true;
    EXPECT_TRUE(run(0));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(too_soon, 0);
  EXPECT_EQ(copied, zeros);
  EXPECT_TRUE(lanes_.replay());
  EXPECT_NE(digest("w"), zeros_);
}

// A step begins when the caller's stream is ready for it; a copy that waits for nothing else does
// not begin before.
TEST_F(CudaLanesTest, TimeNoCopyBeforeTheBeginOfItsStep) {
  cudaStream_t caller = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&caller, cudaStreamNonBlocking), cudaSuccess);
  backend_->follow(caller);
  ASSERT_EQ(
      threaded_cuda::launch(caller, {.name = "work of the caller's",
                                     .touches = {},
                                     .run = [] { std::this_thread::sleep_for(milliseconds(30)); }}),
      cudaSuccess);
  ASSERT_TRUE(run(0, /*is_timed=*/true));
  const auto times = lanes_.times();
  ASSERT_TRUE(times);
  ASSERT_EQ(times->size(), compiled_.program.instructions.size());
  for (const exec::Interval& interval : *times) {
    EXPECT_GE(interval.start, Duration{});
    EXPECT_GE(interval.end, interval.start);
  }
  backend_->follow(nullptr);
  cudaStreamDestroy(caller);
}

TEST_F(CudaLanesTest, RunStepsOfSeveralThreadsAtOnce) {
  constexpr std::uint64_t kRounds = kSanitized ? 5 : 25;
  std::atomic<int> replayed = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    StreamWorkers::get().dawdle(round + 1);
    std::vector<std::string> differences(3, "did not run");
    std::vector<std::thread> threads;
    threads.reserve(differences.size());
    for (std::size_t i = 0; i < differences.size(); ++i) {
      threads.emplace_back([&, i] {
        const auto backend = make_backend();
        HashKernels kernels(into_compute_stream(*backend));
        const std::uint64_t seed = round * differences.size() + i;
        const Graph original = runnable_graph(seed);
        const Compiled compiled =
            compile(rewritten_at_random(original, seed, 30), kernels, {.alignment = Bytes{512}});
        CudaStage stage(*backend, i == 0 ? Manner::kPlain : Manner::kKept);
        differences[i] = find_difference(original, compiled, kernels, stage);
        replayed += stage.replayed();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(differences, std::vector<std::string>(3)) << "round " << round;
    ASSERT_EQ(take_trouble(), "") << "round " << round;
  }
}

TEST_F(CudaLanesTest, AreOfTheDeviceThatWasAskedFor) {
  const auto other = exec::make_cuda_backend(3).value();
  int current = -1;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
  EXPECT_NE(other->compute_stream(), backend_->compute_stream());
  const auto arena = other->make_arena(Bytes{1 << 20});
  ASSERT_TRUE(arena);
  EXPECT_EQ(other->free_memory().value(), Bytes{(1 << 30) - (1 << 20)});
  EXPECT_EQ(exec::make_cuda_backend(threaded_cuda::kDevices).error().message,
            "there is no GPU 8 here: they are 0 to 7");
}

}  // namespace
}  // namespace ebb
