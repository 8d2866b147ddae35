// A graph with its program, and whether that computes what a graph says.
#pragma once

#include <string>
#include <vector>

#include "ebb/exec/thread_lanes.h"
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

// Runs the program in an arena, and `original` with every storage in memory of its own; what
// differs after a step of the state, the outputs and the scalars of `original`, or nothing. Its ids
// must mean the same in the program's graph, which may have more.
std::string find_difference(const Graph& original, const Compiled& compiled, HashKernels& kernels,
                            const exec::ThreadLanesOptions& options = {});

}  // namespace ebb
