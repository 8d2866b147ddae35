// Keeps an executor that runs ahead from making more tensors than the link has taken away.
//
// TensorFlow starts whatever is ready: the forward phase runs on while copies to the host queue up,
// and all that waits to be copied is still in the device's memory. So operations are made to wait:
// of the operations of a device and scope whose results are swapped, in line order, the (k+N)-th
// waits for the swap-outs of the k-th. Then at most N of them have results that the host does not
// have yet. Operations are counted and not tensors: a batch norm has small results beside its large
// one, and by counting these the large one would be waited for too late or, by itself, never.
//
// Only tensors that forward operations make and backward operations alone are brought back for: the
// others come back soon, and to wait for them would cost what swapping gains. Cost: O(nodes).
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/rewrite/lms_graph.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {

struct LmsSync {
  std::vector<DelayDecision> delays;  // that were applied
  std::size_t refused = 0;            // by the rule
};

// Delays producers of what the rewriter has swapped so far. `phases` are those of its graph before
// the swaps; `distance` is N, at least 1.
LmsSync synchronize(Rewriter& rewriter, const std::vector<LmsPhase>& phases, std::int64_t distance);

}  // namespace ebb
