// The lanes of a GPU, on a CUDA runtime made of threads: whatever runs when, the same bits come out
// as on the CPU, and nothing but the waits is needed for that.
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "tests/exec/compiled.h"
#include "tests/exec/cuda_stage.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/runnable_graph.h"
#include "tests/exec/threaded_cuda.h"
#include "tests/meaning/random_decisions.h"
#include "tests/meaning/random_graph.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

using Manner = CudaStage::Manner;

constexpr LowerOptions kOptions{.alignment = Bytes{512}};

std::string name_of(Manner manner) {
  switch (manner) {
    case Manner::kPlain:
      return "Plain";
    case Manner::kTimed:
      return "Timed";
    case Manner::kKept:
      return "Kept";
  }
  return {};
}

class CudaPrograms : public testing::TestWithParam<Manner> {
 protected:
  void SetUp() override {
    threaded_cuda::make_trouble({});
    ASSERT_EQ(take_trouble(), "");
  }
  void TearDown() override {
    StreamWorkers::get().dawdle(0);
    threaded_cuda::make_trouble({});
  }

  // What differs from what the graph says, and what the threads have seen.
  std::string run(const Graph& original, const Compiled& compiled) {
    CudaStage stage(*backend_, GetParam());
    std::string difference = find_difference(original, compiled, kernels_, stage);
    replayed_ += stage.replayed();
    trouble_ = take_trouble();
    return difference + trouble_;
  }

  std::unique_ptr<exec::CudaBackend> backend_ = exec::make_cuda_backend(0).value();
  HashKernels kernels_{into_compute_stream(*backend_)};
  int replayed_ = 0;
  std::string trouble_;  // what the threads saw last
};

INSTANTIATE_TEST_SUITE_P(, CudaPrograms,
                         testing::Values(Manner::kPlain, Manner::kTimed, Manner::kKept),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(CudaPrograms, ComputeWhatTheGraphSaysAtAnyPace) {
  constexpr std::uint64_t kGraphs = kSanitized ? 60 : 340;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph original = with_shuffled_lines(runnable_graph(seed), seed);
    const Compiled compiled = compile(rewritten_at_random(original, seed, 30), kernels_, kOptions);
    StreamWorkers::get().dawdle(seed + 1);
    ASSERT_EQ(run(original, compiled), "") << "seed " << seed << "\n"
                                           << to_text(compiled.graph, compiled.program);
  }
  if (GetParam() == Manner::kKept) {
    EXPECT_GT(replayed_, static_cast<int>(kGraphs) / 2) << "or this says little about kept steps";
  }
}

// The check of races reads a program; here it is what was put into streams that is looked at.
TEST_P(CudaPrograms, NeedEveryWaitOfAProgramThatKeepsBytesApart) {
  if (kThreadSanitized) GTEST_SKIP() << "it races on purpose";
  constexpr std::uint64_t kGraphs = kSanitized ? 8 : 40;
  std::size_t noticed = 0;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph original = runnable_graph(seed);
    Compiled compiled = compile(rewritten_at_random(original, seed, 30), kernels_, kOptions);
    const Program right = compiled.program;
    for (std::size_t i = 0; i < right.waits.size(); ++i) {
      compiled.program = without_wait(right, i);
      const Status why = check_races(compiled.graph, compiled.program);
      ASSERT_FALSE(why);
      if (why.error().message.find("which it is to follow") != std::string::npos) continue;
      ASSERT_NE(run(original, compiled), "")
          << "seed " << seed << ", wait " << i << ": " << why.error().message << "\n"
          << to_text(compiled.graph, right);
      ++noticed;
    }
  }
  EXPECT_GT(noticed, kGraphs * 2);
}

// What is fed is swapped out at once (the lane must wait for the begin), and the last copies of
// both lanes are waited for by nobody in the program (the end must wait for them).
constexpr const char* kStep = R"(graph step {
  input %x: f32[1000]
  %x.host: f32[1000] @host = ebb::swap_out(%x)
  %a: f32[1000] = test::op(%x)
  %b: f32[1000] = test::op(%a)
  %b.host: f32[1000] @host = ebb::swap_out(%b)
  %x.back: f32[1000] = ebb::swap_in(%x.host) after b
  %c: f32[1000] = test::op(%b, %x.back)
  %c.host: f32[1000] @host = ebb::swap_out(%c)
  %b.back: f32[1000] = ebb::swap_in(%b.host) after c
  return %c, %b.back
}
)";

TEST_P(CudaPrograms, NeedEveryWaitOfTheLanes) {
  if (kThreadSanitized) GTEST_SKIP() << "it races on purpose";
  const Graph graph = parse_valid(kStep).value();
  const Compiled compiled = compile(graph, kernels_, kOptions);
  // The bytes of a graph with copies are not looked at.
  const auto is_right = [&] {
    replayed_ = 0;
    run(graph, compiled);
    return trouble_.empty() && replayed_ == (GetParam() == Manner::kKept ? 3 : 0);
  };
  threaded_cuda::make_trouble({});
  ASSERT_TRUE(is_right()) << trouble_;
  const std::size_t waits = threaded_cuda::happened().waits;
  std::vector<std::size_t> unnoticed;
  for (std::size_t i = 1; i <= waits; ++i) {
    threaded_cuda::make_trouble({.dropped_wait = i, .room = {}});
    if (is_right()) unnoticed.push_back(i);
  }
  if (GetParam() == Manner::kKept) {
    // Before a step is kept, and before it is done, the compute lane waits for the caller, and
    // either will do; and he waits for it after the keeping, when nothing has been done.
    EXPECT_EQ(unnoticed, (std::vector<std::size_t>{1, waits - 6, waits - 5}));
  } else {
    // Nothing comes after the last copy to the host, unless it takes so long that the memory is
    // another's by then.
    EXPECT_TRUE(unnoticed.empty() || unnoticed == std::vector<std::size_t>{waits - 2})
        << testing::PrintToString(unnoticed) << " of " << waits;
  }
}

// Whatever failed in a step: the next one does not meet what that one left under way.
TEST_P(CudaPrograms, AreInOrderAfterAStepThatFailed) {
  if (kThreadSanitized) GTEST_SKIP() << "without some waits there are races";
  const Graph graph = parse_valid(kStep).value();
  const Compiled compiled = compile(graph, kernels_, kOptions);
  const auto arena = backend_->make_arena(compiled.program.arena_size).value();
  const auto host = backend_->make_host_slab(compiled.program.host_size, nullptr).value();
  auto executor =
      exec::Executor::make(graph, compiled.program, kernels_, {arena, host, backend_->lanes()})
          .value();
  const std::vector<std::byte> input(4000);
  exec::Scalars scalars(graph);
  int failed = 0;
  int borne = 0;
  bool is_over = false;
  for (std::size_t i = 1; !is_over; ++i) {
    // Of a step that is kept: when it is kept, and when it is done again.
    for (int again = 0; again < (GetParam() == Manner::kKept ? 2 : 1); ++again) {
      CudaStage stage(*backend_, GetParam());
      const auto feed = [&] { stage.write(executor.place(graph.find_tensor("x")), input); };
      ASSERT_TRUE(again == 0 || stage.run(executor, scalars));
      feed();
      threaded_cuda::make_trouble({.failing_call = i, .code = cudaErrorUnknown, .room = {}});
      const Status ok = stage.run(executor, scalars);
      const std::string call = threaded_cuda::happened().failed;
      is_over = is_over || (call.empty() && again == 0);  // keeping it takes more calls
      threaded_cuda::make_trouble({});
      ASSERT_TRUE(!ok || call.empty() || GetParam() == Manner::kKept) << call;
      const std::string trouble = take_trouble();
      ASSERT_TRUE(!ok || trouble.empty()) << call << ": " << trouble;
      feed();
      ASSERT_TRUE(stage.run(executor, scalars));
      ASSERT_TRUE(stage.settle());
      EXPECT_EQ(take_trouble(), "") << "after " << call << ", call " << i;
      if (!call.empty()) ++(ok ? borne : failed);
    }
  }
  EXPECT_GT(failed + borne, 20);
  if (GetParam() == Manner::kKept) {
    // What fails before a kept step is launched is told, and nothing was done; all else is borne.
    EXPECT_GT(borne, failed);
  } else {
    EXPECT_EQ(borne, 0);
  }
}

}  // namespace
}  // namespace ebb
