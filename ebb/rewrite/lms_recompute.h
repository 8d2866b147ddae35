// Which tensors are computed again for the backward phase instead of being swapped: those that
// operations of the types in `recompute_types` make.
//
// Edges and triggers are those of a swap. Operations are looked at from the last line to the first,
// so a clone that reads what another operation of such a type made is one more late reader by the
// time that one is looked at: chains come out last first (docs/decisions, 24). A clone in a chain
// waits for the trigger that its reader waits for. Readers with the same trigger share a clone, so
// that nothing is computed twice at one time, and a diamond is not unfolded. A chain ends after
// kLongestChain operations; without an end, a type that goes through the whole model, as a residual
// addition, would be computed from the start for every reader.
//
// What is not computed again may be swapped, and so may what clones read: the driver looks at the
// graph with clones next. Cost: O(nodes + edges), and what the rule takes for each decision.
#pragma once

#include "ebb/graph/graph.h"
#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {

inline constexpr int kLongestChain = 8;

// The rewriter's graph is a copy of `original`, to which nothing was done; the options were
// checked. Adds to the plan what was done and what the rule refused; shared obstacles, as that
// there is no trigger, are reported by who tries to swap.
void choose_recomputes(const Graph& original, const LmsOptions& options, Rewriter& rewriter,
                       LmsPlan& plan);

}  // namespace ebb
