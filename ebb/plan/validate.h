// Whether a plan keeps what it promises: brute force, small, and without a line of the planner's.
//
//   const auto planned = make_plan(graph, device, {.budget = Bytes{16} << 30});
//   if (Status right = validate_plan(graph, planned->plan->file, device); !right)
//   report(right.error());
//
// Applies the decisions, which proves that the rewritten graph computes the same, and then looks at
// every two things that lie in the arena or in the slab on the host. A storage is there from the
// line that makes it to the last one that touches it (lines that make only views touch nothing);
// inputs from the start; parameters, constants and what the step returns to the end, and the former
// two from the start; a workspace during its line. Copies over the link run beside the lines: what
// goes to the host is there from when its source is made, and until what comes back is read.
// Checked are:
//
//   offsets   each storage and each workspace that has bytes has one, aligned, and nobody else does
//   bytes     who is there at the same time lies apart, unless an operator of elementwise.h writes
//             its result over an operand that dies there; nobody gets bytes that are still copied
//   budgets   everything ends within them; `peak` and `host` are where the last ones end
//   order     every line stands below those that it waits for
//   time      `step` has room for all that is computed, and for all copies of either direction, one
//             after the other; `unconstrained` is what the original computes
//
// That the step takes as long as predicted is not: only running it would say so.
// O(blocks * (nodes + blocks)), for the blocks that lie in arena and slab.
#pragma once

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"
#include "ebb/plan/profile.h"
#include "ebb/rewrite/plan_file.h"

namespace ebb {

// Of a plan that has a prediction. kRefused names what is in whose way. Device and profile are
// those that the plan was made with.
[[nodiscard]] Status validate_plan(const Graph& original, const PlanFile& plan,
                                   const Device& device, const Profile* profile = nullptr);

}  // namespace ebb
