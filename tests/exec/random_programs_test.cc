// Programs compute what the graph says, whatever lies where: random graphs, run in an arena and
// with every storage in memory of its own, byte for byte the same.
#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "ebb/base/check.h"
#include "ebb/exec/executor.h"
#include "ebb/graph/print.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/hash_op.h"
#include "tests/exec/reference.h"
#include "tests/exec/runnable_graph.h"
#include "tests/meaning/random_graph.h"

namespace ebb {
namespace {

constexpr int kSteps = 3;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kGraphs = 400;
#else
constexpr std::uint64_t kGraphs = 3'000;
#endif

bool is_state(const Graph& graph, TensorId tensor) {
  const NodeKind origin = graph.origin(graph.storage(tensor));
  return origin == NodeKind::kParam || origin == NodeKind::kConst;
}

// Everything that is needed to run a graph.
struct Compiled {
  Graph graph;
  std::vector<Recipe> recipes;
  LowerOptions options;
  Program program;
};

Compiled compile(Graph graph, HashKernels& kernels, const LowerOptions& options) {
  Compiled compiled{std::move(graph), {}, options, {}};
  auto recipes = exec::measure_all(compiled.graph, kernels);
  EXPECT_TRUE(recipes);
  compiled.recipes = std::move(*recipes);
  auto program = lower(compiled.graph, compiled.recipes, options);
  EXPECT_TRUE(program) << program.error().message;
  compiled.program = std::move(*program);
  return compiled;
}

// What is given from outside at a step: the state at the first one only.
void feed(const Graph& graph, int step, const std::function<std::byte*(TensorId)>& place) {
  std::mt19937_64 engine(static_cast<std::uint64_t>(step));
  for (const NodeId node : graph.nodes()) {
    if (graph.is_op(node) || graph.results(node).empty()) continue;
    const TensorId tensor = graph.results(node)[0];
    const std::size_t size = byte_count(graph, tensor);
    for (std::size_t i = 0; i < size; ++i) {
      const auto byte = static_cast<std::byte>(engine());
      if (step == 0 || !is_state(graph, tensor)) place(tensor)[i] = byte;
    }
  }
}

exec::Scalars scalars_at(const Graph& graph, int step) {
  exec::Scalars scalars(graph);
  for (const ScalarId scalar : graph.scalars()) {
    scalars.set(scalar, std::int64_t{step} + scalar.index());
  }
  return scalars;
}

// Runs the program against the reference; what is wrong, or nothing.
std::string find_difference(const Compiled& compiled, HashKernels& kernels) {
  const Graph& graph = compiled.graph;
  const auto arena = exec::Arena::make(compiled.program.arena_size);
  if (!arena) return arena.error().message;
  auto executor = exec::Executor::make(graph, compiled.program, kernels, *arena);
  if (!executor) return executor.error().message;
  Reference reference(graph);
  for (int step = 0; step < kSteps; ++step) {
    feed(graph, step, [&](TensorId tensor) { return executor->place(tensor); });
    feed(graph, step, [&](TensorId tensor) { return reference.bytes(tensor).data(); });
    exec::Scalars scalars = scalars_at(graph, step);
    if (const Status ok = executor->run(scalars); !ok) return ok.error().message;
    exec::Scalars expected = scalars_at(graph, step);
    for (const NodeId node : graph.order()) {  // as the graph declares them
      const ScalarId scalar = graph.scalar_result(node);
      if (graph.kind(node) != NodeKind::kScalar) continue;
      expected.set(scalar, *exec::convert(expected[scalar], graph.dtype(scalar)));
    }
    reference.run(expected);
    for (const TensorId tensor : graph.tensors()) {
      const auto& outputs = graph.outputs();
      if (!is_state(graph, tensor) &&
          std::find(outputs.begin(), outputs.end(), tensor) == outputs.end()) {
        continue;
      }
      const auto bytes = reference.bytes(tensor);
      if (std::memcmp(bytes.data(), executor->place(tensor), bytes.size()) != 0) {
        return fmt::format("%{} differs after step {}", graph.name(tensor), step);
      }
    }
    for (const ScalarId scalar : graph.scalars()) {
      if (scalars[scalar] != expected[scalar]) {
        return fmt::format("${} differs after step {}", graph.name(scalar), step);
      }
    }
  }
  return {};
}

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
      ASSERT_EQ(find_difference(compiled, kernels), "") << describe();
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

// Puts a storage somewhere else, with all that lies in it.
void move_storage(Compiled& compiled, StorageId storage, Bytes place) {
  const Graph& graph = compiled.graph;
  Program& program = compiled.program;
  for (const TensorId tensor : graph.tensors()) {
    if (graph.storage(tensor) != storage) continue;
    program.offsets[tensor.index()] = place + graph.offset(tensor);
  }
  const TensorId root = graph.root(storage);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.node != graph.producer(root)) continue;
    const auto& requests = compiled.recipes[instruction.node.index()].requests;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto result = static_cast<std::uint32_t>(requests[i].result);
      if (requests[i].result < 0 || graph.results(instruction.node)[result] != root) continue;
      program.servings[instruction.first_serving + i].offset = place;
    }
  }
  program.arena_size += Bytes{4096};  // there is room for it wherever it is put
}

TEST(RandomPrograms, ThatComputeSomethingElseDoNotPassTheCheck) {
  HashKernels kernels;
  std::size_t different = 0;
  for (std::uint64_t seed = 0; seed < kGraphs / 4; ++seed) {
    const Compiled right = compile(runnable_graph(seed), kernels, {});
    std::mt19937_64 engine(seed);
    for (int attempt = 0; attempt < 4; ++attempt) {
      Compiled wrong = right;
      const Graph& graph = wrong.graph;
      const auto pick = [&] {
        return StorageId(static_cast<std::uint32_t>(engine() % graph.storage_count()));
      };
      if (graph.storage_count() == 0) continue;
      const StorageId moved = pick();
      const Bytes place = wrong.program.offsets[graph.root(pick()).index()];
      move_storage(wrong, moved, place);
      std::string difference;
      try {
        difference = find_difference(wrong, kernels);
      } catch (const InternalError& error) {
        difference = error.what();  // a temporary was overwritten
      }
      if (difference.empty()) continue;
      ++different;
      ASSERT_FALSE(check_program(graph, wrong.recipes, wrong.program, wrong.options))
          << "seed " << seed << ": " << difference << "\n"
          << to_text(graph, right.program) << to_text(graph, wrong.program);
    }
  }
  EXPECT_GT(different, kGraphs / 8) << "or this says little";
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
      threads.emplace_back([&] { difference = find_difference(compiled, kernels); });
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
