// Runs a graph on real bytes, knowing nothing of versions or dependences: storages are buffers,
// every operation fills what it makes with a hash of what it reads at that moment; copies copy, and
// a code carries what it encodes. An aten::convolution_backward is a hash for each gradient, that
// of the input without the input (convolution_backward.h). Two orders of lines compute the same
// exactly when every operation found the same bytes in both.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

// By node: a hash of all that the operation read, in the order of graph.order().
std::vector<std::uint64_t> run(const Graph& graph);

// What is left when the step is over.
struct Outcome {
  std::vector<std::uint64_t> found;      // as run() says
  std::vector<std::uint64_t> variables;  // by storage: a hash of a variable's bytes; of others, 0
  std::vector<std::uint64_t> outputs;    // likewise, by output
};
Outcome run_to_the_end(const Graph& graph);

}  // namespace ebb
