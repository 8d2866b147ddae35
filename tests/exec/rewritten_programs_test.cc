// Rewritten graphs compute what the original says: random graphs after random swaps, recomputes,
// delays and splits, run in an arena and a host slab, against the original with every storage in
// memory of its own, byte for byte the same.
#include <thread>

#include <gtest/gtest.h>

#include "ebb/graph/convolution_backward.h"
#include "ebb/graph/print.h"
#include "tests/exec/compiled.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/runnable_graph.h"
#include "tests/meaning/random_decisions.h"
#include "tests/meaning/random_graph.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

constexpr std::uint64_t kGraphs = kSanitized ? 400 : 3'000;

// By kind: the instructions that rewriting adds.
struct Added {
  std::size_t swap_outs = 0;
  std::size_t swap_ins = 0;
  std::size_t snapshots = 0;
  std::size_t clones = 0;
  std::size_t splits = 0;

  void count(const Compiled& compiled) {
    for (const Instruction& instruction : compiled.program.instructions) {
      const std::string_view op = compiled.graph.op(instruction.node);
      if (op == "ebb::swap_out") ++swap_outs;
      if (op == "ebb::swap_in") ++swap_ins;
      if (op == "ebb::snapshot") ++snapshots;
      if (compiled.graph.clone_of(instruction.node).valid()) ++clones;
      const bool has_no_input =
          op == kConvolutionBackward &&
          !compiled.graph.operands(instruction.node)[kConvolutionInput].tensor.valid();
      if (has_no_input) ++splits;
    }
  }
};

TEST(RewrittenPrograms, ComputeWhatTheOriginalSays) {
  HashKernels kernels;
  Added added;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph original = with_shuffled_lines(runnable_graph(seed), seed);
    const Graph rewritten = rewritten_at_random(original, seed, 30);
    const LowerOptions options{.alignment = Bytes{seed % 3 == 0 ? 512 : 64},
                               .reuse_in_place = seed % 4 != 0};
    const Compiled compiled = compile(rewritten, kernels, options);
    const auto describe = [&] {
      return fmt::format("seed {}\n{}{}{}", seed, print(original), print(rewritten),
                         to_text(compiled.graph, compiled.program));
    };
    const Status right = check_program(compiled.graph, compiled.recipes, compiled.program, options);
    ASSERT_TRUE(right) << right.error().message << "\n" << describe();
    const Status ordered = check_races(compiled.graph, compiled.program);
    ASSERT_TRUE(ordered) << ordered.error().message << "\n" << describe();
    ASSERT_EQ(find_difference(original, compiled, kernels), "") << describe();
    added.count(compiled);
  }
  EXPECT_GT(added.swap_outs, kGraphs / 2);
  EXPECT_GT(added.swap_ins, kGraphs / 2);
  EXPECT_GT(added.snapshots, kGraphs / 50);
  EXPECT_GT(added.clones, kGraphs / 2);
  EXPECT_GT(added.splits, kGraphs / 20);
}

TEST(RewrittenPrograms, RunInEveryOrderOfTheirLines) {
  HashKernels kernels;
  for (std::uint64_t seed = 0; seed < kGraphs / 4; ++seed) {
    const Graph original = runnable_graph(seed);
    const Graph shuffled = with_shuffled_lines(rewritten_at_random(original, seed, 30), seed);
    const Compiled compiled = compile(shuffled, kernels, {});
    ASSERT_EQ(find_difference(original, compiled, kernels), "") << "seed " << seed << "\n"
                                                                << print(shuffled);
  }
}

TEST(RewrittenPrograms, HoldNothingOnTheHostThatWasNotSwappedOut) {
  HashKernels kernels;
  for (std::uint64_t seed = 0; seed < kGraphs / 4; ++seed) {
    const Compiled compiled =
        compile(rewritten_at_random(runnable_graph(seed), seed, 30), kernels, {});
    Bytes swapped_out;
    for (const StorageId storage : compiled.graph.storages()) {
      if (compiled.graph.residence(storage) != Residence::kHost) continue;
      const std::int64_t size = compiled.graph.size(storage).value_or(Bytes{}).count;
      swapped_out += Bytes{(size + 63) / 64 * 64};
    }
    ASSERT_LE(compiled.program.host_size, swapped_out) << "seed " << seed;
    ASSERT_EQ(compiled.program.host_size.count == 0, swapped_out.count == 0) << "seed " << seed;
  }
}

TEST(RewrittenPrograms, RunOnSeveralThreadsAtOnce) {
  constexpr int kThreads = 4;
  HashKernels kernels;  // shared, as are graph and program
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph original = runnable_graph(seed, 60);
    const Compiled compiled = compile(rewritten_at_random(original, seed, 60), kernels, {});
    std::vector<std::string> differences(kThreads, "did not run");
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (std::string& difference : differences) {
      threads.emplace_back([&] { difference = find_difference(original, compiled, kernels); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(differences, std::vector<std::string>(kThreads)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ebb
