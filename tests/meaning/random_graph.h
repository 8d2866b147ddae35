// Random graphs that use every construct of the text form and keep every invariant.
#pragma once

#include <cstdint>

#include "ebb/graph/graph.h"

namespace ebb {

struct RandomGraphOptions {
  int nodes = 24;  // operations; declarations come on top
};

// The same seed gives the same graph on every machine.
Graph random_graph(std::uint64_t seed, const RandomGraphOptions& options = {});

// The same graph with its lines in a random order that runs.
Graph with_shuffled_lines(Graph graph, std::uint64_t seed);

}  // namespace ebb
