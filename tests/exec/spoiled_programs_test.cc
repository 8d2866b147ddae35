// The checker of programs sees what is wrong: storages are put where others are, and whatever then
// computes something else is reported.
#include <random>

#include <gtest/gtest.h>

#include "ebb/base/check.h"
#include "ebb/lower/waits.h"
#include "tests/exec/compiled.h"
#include "tests/exec/hash_kernels.h"
#include "tests/exec/runnable_graph.h"
#include "tests/meaning/random_decisions.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

constexpr std::uint64_t kGraphs = kSanitized ? 100 : 750;

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
  // There is room for it wherever it is put.
  program.arena_size += Bytes{4096};
  program.host_size += Bytes{4096};
}

// Moves one storage on the side to the place of another; what the program then computes otherwise
// than the original, or nothing. A difference that the check does not see fails the test.
std::string spoil(const Graph& original, const Compiled& right, Residence side,
                  std::mt19937_64& engine, HashKernels& kernels) {
  const Graph& graph = right.graph;
  std::vector<StorageId> storages;
  for (const StorageId storage : graph.storages()) {
    if (graph.residence(storage) == side) storages.push_back(storage);
  }
  if (storages.empty()) return {};
  const auto pick = [&] { return storages[engine() % storages.size()]; };
  Compiled wrong = right;
  const StorageId moved = pick();
  move_storage(wrong, moved, wrong.program.offsets[graph.root(pick()).index()]);
  add_waits(graph, wrong.program);  // it is wrong every time in the same way
  std::string difference;
  try {
    difference = find_difference(original, wrong, kernels);
  } catch (const InternalError& error) {
    difference = error.what();  // a temporary was overwritten
  }
  if (difference.empty()) return {};
  EXPECT_FALSE(check_program(wrong.graph, wrong.recipes, wrong.program, wrong.options))
      << difference << "\n"
      << to_text(graph, right.program) << to_text(graph, wrong.program);
  return difference;
}

TEST(SpoiledPrograms, DoNotPassTheCheckIfTheyComputeSomethingElse) {
  HashKernels kernels;
  std::size_t different = 0;
  for (std::uint64_t seed = 0; seed < kGraphs && !HasFailure(); ++seed) {
    const Graph graph = runnable_graph(seed);
    const Compiled right = compile(graph, kernels, {});
    std::mt19937_64 engine(seed);
    for (int attempt = 0; attempt < 4; ++attempt) {
      if (!spoil(graph, right, Residence::kDevice, engine, kernels).empty()) ++different;
    }
  }
  EXPECT_GT(different, kGraphs / 2) << "or this says little";
}

TEST(SpoiledPrograms, DoNotPassTheCheckEitherWhereTheHostSlabIsSpoiled) {
  HashKernels kernels;
  std::size_t different = 0;
  std::size_t different_on_host = 0;
  for (std::uint64_t seed = 0; seed < kGraphs && !HasFailure(); ++seed) {
    const Graph original = runnable_graph(seed, 40);
    const Compiled right = compile(rewritten_at_random(original, seed, 80), kernels, {});
    std::mt19937_64 engine(seed);
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (!spoil(original, right, Residence::kDevice, engine, kernels).empty()) ++different;
    }
    for (int attempt = 0; attempt < 6; ++attempt) {  // little lies there at one time
      if (!spoil(original, right, Residence::kHost, engine, kernels).empty()) ++different_on_host;
    }
  }
  EXPECT_GT(different, kGraphs / 4) << "or this says little";
  EXPECT_GT(different_on_host, kGraphs / 30) << "or this says little about the host";
}

}  // namespace
}  // namespace ebb
