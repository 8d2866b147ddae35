// Programs compute what the graph says, whatever lies where: random graphs, run in an arena and
// with every storage in memory of its own, byte for byte the same.
#include <thread>

#include <gtest/gtest.h>

#include "ebb/graph/print.h"
#include "tests/exec/compiled.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/runnable_graph.h"
#include "tests/meaning/random_graph.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

constexpr std::uint64_t kGraphs = kSanitized ? 400 : 3'000;

TEST(RandomPrograms, ComputeWhatTheGraphSays) {
  HashKernels kernels;
  std::size_t reused = 0;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    Graph graph = with_shuffled_lines(runnable_graph(seed), seed);
    for (const bool reuse : {false, true}) {
      const LowerOptions options{.alignment = Bytes{seed % 3 == 0 ? 512 : 64},
                                 .reuse_in_place = reuse};
      const Compiled compiled = compile(graph, kernels, options);
      const auto describe = [&] {
        return fmt::format("seed {}\n{}{}", seed, print(graph),
                           to_text(compiled.graph, compiled.program));
      };
      const Status right =
          check_program(compiled.graph, compiled.recipes, compiled.program, options);
      ASSERT_TRUE(right) << right.error().message << "\n" << describe();
      ASSERT_EQ(find_difference(compiled.graph, compiled, kernels), "") << describe();
      reused += compiled.program.reused_in_place;
    }
  }
  EXPECT_GT(reused, kGraphs / 4) << "or the tests above say little about reuse in place";
}

TEST(RandomPrograms, NeedNoMoreRoomWhenTheyReuseBytesInPlace) {
  HashKernels kernels;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = runnable_graph(seed);
    const Compiled apart = compile(graph, kernels, {.reuse_in_place = false});
    const Compiled together = compile(graph, kernels, {});
    ASSERT_LE(together.program.bound, apart.program.bound) << "seed " << seed;
    ASSERT_EQ(apart.program.reused_in_place, 0U);
  }
}

TEST(RandomPrograms, AreTheSameEveryTime) {
  HashKernels kernels;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Compiled one = compile(runnable_graph(seed), kernels, {});
    const Compiled two = compile(runnable_graph(seed), kernels, {});
    ASSERT_EQ(to_text(one.graph, one.program), to_text(two.graph, two.program));
  }
}

TEST(RandomPrograms, RunOnSeveralThreadsAtOnce) {
  constexpr int kThreads = 4;
  HashKernels kernels;  // shared, as are graph and program
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Compiled compiled = compile(runnable_graph(seed, 60), kernels, {});
    std::vector<std::string> differences(kThreads, "did not run");
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (std::string& difference : differences) {
      threads.emplace_back(
          [&] { difference = find_difference(compiled.graph, compiled, kernels); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(differences, std::vector<std::string>(kThreads)) << "seed " << seed;
  }
}

TEST(RandomPrograms, AreMeasuredAndLoweredOnSeveralThreadsAtOnce) {
  HashKernels kernels;
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  threads.reserve(texts.size());
  const Graph graph = runnable_graph(5, 60);
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      const Compiled compiled = compile(graph, kernels, {});
      text = to_text(compiled.graph, compiled.program);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts, std::vector<std::string>(4, texts[0]));
}

}  // namespace
}  // namespace ebb
