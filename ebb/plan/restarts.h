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

inline constexpr int kUsualSeeds = 8;

// As make_plan, by options.seed and, where nothing fits that could or the step takes 5 % longer
// than without a budget, the seeds that follow, `seeds` in all; where the best step takes 50 %
// longer, half of them once more with four times the evaluations. One seed: make_plan. As many
// threads as the machine has; the answer does not depend on how many. Progress is told of the seeds
// together, and on the thread that calls: what it throws ends the searches, and comes through.
// Whether time is out may be asked from all threads.
[[nodiscard]] Result<Planned> make_fastest_plan(const Graph& graph, const Device& device,
                                                const PlanOptions& options,
                                                int seeds = kUsualSeeds);

// For a step that is about to run: the usual number on a GPU, where it will train for hours; one on
// the CPU, where steps are tried out, and where the evaluations are given.
[[nodiscard]] int seeds_for_step(bool is_on_cpu, const PlanOptions& options);

}  // namespace ebb
