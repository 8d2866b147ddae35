// A graph with its program, and whether that computes what a graph says.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ebb/exec/backend.h"
#include "ebb/exec/executor.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/program.h"
#include "tests/exec/hash_kernels.h"

namespace ebb {

// Everything that is needed to run a graph.
struct Compiled {
  Graph graph;
  std::vector<Recipe> recipes;
  LowerOptions options;
  Program program;
};

Compiled compile(Graph graph, HashKernels& kernels, const LowerOptions& options);

// The program without one of its waits.
Program without_wait(const Program& program, std::size_t wait);

// Where a program runs, how bytes get in and out, and in what manner a step is done: at once on the
// CPU, unless somebody knows better.
class Stage {
 public:
  explicit Stage(exec::Backend& backend) : backend_(backend) {}
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  [[nodiscard]] exec::Backend& backend() const { return backend_; }
  // Before the next step, after the last one; what was read is there when it has settled. Whatever
  // is written and read must stay there until then.
  virtual void write(std::byte* to, std::span<const std::byte> bytes);
  virtual void read(const std::byte* from, std::span<std::byte> bytes);
  [[nodiscard]] virtual Status run(exec::Executor& executor, exec::Scalars& scalars);
  [[nodiscard]] virtual Status settle();

 private:
  exec::Backend& backend_;
};

// Runs the program in an arena, and `original` with every storage in memory of its own; what
// differs after a step of the state, the outputs and the scalars of `original`, or nothing. Its ids
// must mean the same in the program's graph, which may have more.
std::string find_difference(const Graph& original, const Compiled& compiled, HashKernels& kernels,
                            Stage& stage);
std::string find_difference(const Graph& original, const Compiled& compiled, HashKernels& kernels,
                            const exec::ThreadLanesOptions& options = {});

}  // namespace ebb
