// Lanes run side by side, and whatever their pace, the same bits come out.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <random>
#include <string_view>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "ebb/exec/executor.h"
#include "ebb/exec/measured_timeline.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/plan/simulate.h"
#include "tests/exec/compiled.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/runnable_graph.h"
#include "tests/meaning/random_decisions.h"
#include "tests/meaning/random_graph.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kGraphs = kSanitized ? 100 : 500;

Compiled rewritten_program(const Graph& original, std::uint64_t seed, HashKernels& kernels) {
  return compile(rewritten_at_random(original, seed, 30), kernels, {});
}

TEST(Lanes, GiveTheSameBitsAtAnyPace) {
  constexpr std::uint64_t kPaces = kSanitized ? 10 : 4;
  HashKernels kernels;
  for (std::uint64_t seed = 0; seed < kGraphs / 2; ++seed) {
    const Graph original = with_shuffled_lines(runnable_graph(seed), seed);
    const Compiled compiled = rewritten_program(original, seed, kernels);
    for (std::uint64_t pace = 0; pace < kPaces; ++pace) {
      std::atomic<std::uint64_t> next = seed * kPaces + pace;
      const auto dawdle = [&](Lane lane) {
        std::mt19937_64 dice(next++ * 3 + static_cast<std::uint64_t>(lane));
        // Now one lane is the slow one, now the other.
        if (dice() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice() % 300));
      };
      ASSERT_EQ(find_difference(original, compiled, kernels, {.dawdle = dawdle}), "")
          << "seed " << seed << ", pace " << pace << "\n"
          << to_text(compiled.graph, compiled.program);
    }
  }
}

TEST(Lanes, NeedEveryWaitThatThereIs) {
  HashKernels kernels;
  std::size_t waits = 0;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Compiled compiled = rewritten_program(runnable_graph(seed), seed, kernels);
    const Status right = check_races(compiled.graph, compiled.program);
    ASSERT_TRUE(right) << right.error().message;
    for (std::size_t i = 0; i < compiled.program.waits.size(); ++i) {
      const Program less = without_wait(compiled.program, i);
      ASSERT_FALSE(check_races(compiled.graph, less))
          << "seed " << seed << ", wait " << i << "\n"
          << print(compiled.graph) << to_text(compiled.graph, compiled.program);
      ++waits;
    }
  }
  EXPECT_GT(waits, kGraphs * 2);
}

TEST(Lanes, ProgramsWithoutCopiesHaveNothingToWaitFor) {
  HashKernels kernels;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_TRUE(compile(runnable_graph(seed), kernels, {}).program.waits.empty());
  }
}

// %a leaves under %b and %c, and comes back under %d and %e. %c reads it, so that nobody gets its
// bytes before it has left.
constexpr const char* kStep = R"(graph step {
  input %x: f32[1000]
  %a: f32[1000] = test::op(%x) takes 20ms
  %a.host: f32[1000] @host = ebb::swap_out(%a)
  %b: f32[1000] = test::op(%x) takes 20ms
  %c: f32[1000] = test::op(%b, %a) takes 20ms
  %a.back: f32[1000] = ebb::swap_in(%a.host) after c
  %d: f32[1000] = test::op(%c) takes 20ms
  %e: f32[1000] = test::op(%d) takes 20ms
  %f: f32[1000] = test::op(%e, %a.back) takes 20ms
  return %f
}
)";

class SlowLink : public testing::Test {
 protected:
  static constexpr Bandwidth kSpeed{100'000};  // 4000 bytes take 40 ms

  HashKernels kernels_;
  Compiled compiled_ = compile(parse_valid(kStep).value(), kernels_, {});

  // The step as it was run.
  Timeline run() {
    const auto arena = exec::Arena::make(compiled_.program.arena_size);
    const auto host = exec::Arena::make(compiled_.program.host_size);
    const auto compute = [](Lane lane) {
      if (lane == Lane::kCompute) std::this_thread::sleep_for(milliseconds(20));
    };
    exec::ThreadLanes lanes({.to_host = kSpeed, .to_device = kSpeed, .dawdle = compute});
    auto executor =
        exec::Executor::make(compiled_.graph, compiled_.program, kernels_, {*arena, *host, lanes});
    exec::Scalars scalars(compiled_.graph);
    EXPECT_TRUE(executor->run(scalars, nullptr, /*is_timed=*/true));
    return exec::measured_timeline(compiled_.graph, compiled_.program, lanes.times().value());
  }

  [[nodiscard]] Timeline predict() const {
    Device device = find_device("cpu").value();
    device.link = {kSpeed, kSpeed, kSpeed, kSpeed, Duration{}, Duration{}};
    return simulate(compiled_.graph, estimate_costs(compiled_.graph, device).value());
  }

  [[nodiscard]] Span of(const Timeline& timeline, std::string_view name) const {
    const NodeId node = compiled_.graph.find_node(name);
    const auto span = std::find_if(timeline.spans.begin(), timeline.spans.end(),
                                   [&](const Span& each) { return each.node == node; });
    return span == timeline.spans.end() ? Span{} : *span;
  }
};

// By how much anything starts or ends later than predicted, at most.
Duration lateness(const Timeline& measured, const Timeline& predicted) {
  Duration most{};
  for (const Span& expected : predicted.spans) {
    const auto span = std::find_if(measured.spans.begin(), measured.spans.end(),
                                   [&](const Span& each) { return each.node == expected.node; });
    if (span == measured.spans.end()) return Duration::max();
    most = std::max({most, span->start - expected.start, span->end - expected.end});
  }
  return most;
}

// Six kernels of 20 ms one after the other, and each copy takes 40 ms under two of them:
//
//   ms         0    20    40    60    80   100   120
//   compute    |  a  |  b  |  c  |  d  |  e  |  f  |
//   to host          |  a.host   |
//   to device                    |  a.back   |
//
// One after the other everything takes 200 ms. A sleep is never too short, so nothing is earlier
// than predicted. It may be too long where others want the processor: the best of some runs counts.
// Half a kernel late is allowed; without any one of the overlaps, something would be 20 ms late.
TEST_F(SlowLink, CopiesRunUnderComputeAsPredicted) {
  const Timeline predicted = predict();
  ASSERT_EQ(predicted.total, milliseconds(120));
  ASSERT_EQ(predicted.spans.size(), 8U);
  constexpr int kRuns = 20;
  Duration least = Duration::max();
  for (int i = 0; i < kRuns && least >= milliseconds(10); ++i) {
    const Timeline measured = run();
    for (const Span& expected : predicted.spans) {
      const std::string_view name = compiled_.graph.name(expected.node);
      EXPECT_GE(of(measured, name).end, expected.end) << name;
    }
    EXPECT_GE(of(measured, "a.back").start, of(measured, "c").end) << "its trigger";
    EXPECT_GE(of(measured, "f").start, of(measured, "a.back").end) << "it reads what comes back";
    least = std::min(least, lateness(measured, predicted));
  }
  EXPECT_LT(least, milliseconds(10));
}

TEST(Lanes, WorkInAForkedProcess) {
  if (kSanitized) GTEST_SKIP() << "sanitizers do not follow forks";
  HashKernels kernels;
  const Graph original = runnable_graph(3);
  const Compiled compiled = rewritten_program(original, 3, kernels);
  ASSERT_FALSE(compiled.program.waits.empty()) << "no other lane has anything to do";
  exec::ThreadLanes lanes;
  const auto arena = exec::Arena::make(compiled.program.arena_size);
  const auto host = exec::Arena::make(compiled.program.host_size);
  auto executor =
      exec::Executor::make(compiled.graph, compiled.program, kernels, {*arena, *host, lanes});
  ASSERT_TRUE(executor);
  exec::Scalars scalars(compiled.graph);
  ASSERT_TRUE(executor->run(scalars));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(executor->run(scalars) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(executor->run(scalars));
}

// Takes all the threads that this process can still have, for good.
void use_up_threads() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::size_t now = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const rlim_t most = now + (std::size_t{1} << 20);  // too little for another stack
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  while (true) {
    try {
      std::thread([] { ::pause(); }).detach();  // in a stack that was kept
    } catch (const std::system_error&) {
      return;
    }
  }
}

TEST(Lanes, WithoutThreadsTheCallerDoesTheirWork) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need memory themselves";
  HashKernels kernels;
  const Graph original = runnable_graph(3);
  const Compiled compiled = rewritten_program(original, 3, kernels);
  ASSERT_FALSE(compiled.program.waits.empty()) << "no other lane has anything to do";
  // What is thrown there must not go on with the other tests.
  const auto run_without = [&]() noexcept {
    use_up_threads();
    return find_difference(original, compiled, kernels).empty();
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_without() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ebb
