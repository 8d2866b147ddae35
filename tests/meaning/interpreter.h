// Runs a graph on real bytes, knowing nothing of versions or dependences: storages are buffers,
// every operation fills what it makes with a hash of what it reads at that moment; copies copy. Two
// orders of lines compute the same exactly when every operation found the same bytes in both.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

// By node: a hash of all that the operation read, in the order of graph.order().
std::vector<std::uint64_t> run(const Graph& graph);

}  // namespace ebb
