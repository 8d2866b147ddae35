// Which calls a plan splits (rewrite/split.h), and what the two that come of one cost.
//
// To split a call costs next to nothing: a launch, and a second look at the gradient that both
// read. It is of use where the call stands at the peak, and only there, because what it saves it
// saves at one line: the smaller of its input and the gradient of that.
#pragma once

#include <span>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/plan/profile.h"

namespace ebb {

struct Plan;

// All that the rule lets be split, any number of them at once, in line order.
std::vector<NodeId> find_splittable(const Graph& graph);

// Splits them. Ids stay; those of the nodes that are added follow, in the order of `calls`.
Graph with_splits(Graph graph, std::span<const NodeId> calls);

// Those of the calls, none of which the plan splits, at which it holds so much that its peak could
// not become lower by as much as splitting them saves.
std::vector<NodeId> find_at_peak(const Plan& plan, std::span<const NodeId> calls);

// The profile, with a line for each of the two calls of a split that it lacks, where it has the
// whole call: half of the time, and all of the workspace. Half of what was measured is nearer the
// truth than the model: both calls do the same multiplications, by the kernels that were measured,
// and the model knows nothing of their workspaces, without which the step would not fit.
Profile with_halves(const Profile& profile, const Graph& graph);

}  // namespace ebb
