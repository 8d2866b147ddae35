// Random graphs that use every construct of the text form and keep every invariant.
#pragma once

#include <cstdint>

#include "ebb/graph/graph.h"

namespace ebb {

struct RandomGraphOptions {
  int nodes = 24;  // operations; declarations come on top
  // Also what rewriting has to beware of: handles, encoded tensors, views of several operands or
  // inside branches, makers of views and of others at once; and a backward phase, the second half.
  bool for_rewriting = false;
  // With these, so many operations more that read each other, as a model's layers, and in the
  // backward phase as many that read them, the last first.
  int layers = 0;
};

// How many random graphs a claim is tried on: the number given, or fewer where each takes long
// (under a sanitizer) or where somebody is in a hurry (EBB_GRAPHS=100).
std::uint64_t how_many(std::uint64_t wanted);

// The same seed gives the same graph on every machine.
Graph random_graph(std::uint64_t seed, const RandomGraphOptions& options = {});

// The same graph with its lines in a random order that runs.
Graph with_shuffled_lines(Graph graph, std::uint64_t seed);

}  // namespace ebb
