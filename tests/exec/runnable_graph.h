// Random graphs that a program can run.
#pragma once

#include <cstdint>

#include "ebb/graph/graph.h"

namespace ebb {

// random_graph(seed) of tests/meaning with every size known, everything on one device, in straight
// lines and without copies to the host; and with some of its operations made elementwise, so that
// bytes can be reused in place.
Graph runnable_graph(std::uint64_t seed, int nodes = 24);

}  // namespace ebb
