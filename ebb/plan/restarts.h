// Plans from several seeds, at once, of which the fastest is taken.
//
// Near the least budgets what search finds depends on where it begins, and on how long it goes on:
// of eight seeds the best plan may take half the time of the worst. Where the first plan loses
// little, it is enough; where the best of all seeds loses much, the better half of them go on.
#pragma once

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"
#include "ebb/plan/plan.h"

namespace ebb {

// As make_plan, by options.seed and, where nothing fits or the step takes 5 % longer than without a
// budget, the seeds that follow, `seeds` in all; where the best step takes 50 % longer, half of
// them once more with four times the evaluations. As many threads as the machine has; the answer
// does not depend on how many. Progress is told of the seeds together, from any of these threads
// but never from two at once; whether time is out may be asked from all of them.
[[nodiscard]] Result<Planned> make_fastest_plan(const Graph& graph, const Device& device,
                                                const PlanOptions& options, int seeds = 8);

}  // namespace ebb
