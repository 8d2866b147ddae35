// What a training step keeps on the device, as buffers to lay out (ebb/plan/layout.h). Tests and
// benchmarks of the layout use it.
#pragma once

#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/plan/layout.h"

namespace ebb::examples {

// Storages with their lives, and workspaces during their lines. Parameters and constants have fixed
// offsets, one after the other from 0. The graph must pass the verifier.
std::vector<LayoutBuffer> device_buffers(const Graph& graph, const LayoutOptions& options = {});

// The same step on a budget: the largest buffer that waits at the peak is cut in two, as swapping
// does, with some lines for the copies at both ends; again and again, until the peak of all that is
// not fixed has come down to this share of what it was, or nothing is left to cut. Memory is then
// about equally full for a long time, which is harder to lay out. O(n) for each cut.
std::vector<LayoutBuffer> on_budget(std::vector<LayoutBuffer> buffers, double share);

}  // namespace ebb::examples
