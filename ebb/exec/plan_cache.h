// Plans of earlier processes: one plan file in the cache for each of everything that a plan depends
// on, so that planning the same step again is looking it up.
//
// A plan that is found is applied, proved, laid out and simulated; it is used when that leads to
// the same file word for word, and made anew otherwise.
#pragma once

#include <string>

#include "ebb/base/result.h"
#include "ebb/exec/cache.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"
#include "ebb/plan/plan.h"

namespace ebb::exec {

struct PlannedOnce {
  Planned planned;
  bool was_known = false;
  std::string note;  // for people: why a plan that is there is of no use. Empty: nothing to say
};

// As make_fastest_plan. That there is no plan is not kept.
[[nodiscard]] Result<PlannedOnce> plan_once(const Cache& cache, const Graph& graph,
                                            const Device& device, const PlanOptions& options,
                                            int seeds);

// "plan-8f14e45fceea167a.plan": the number changes when the graph, the device, a time or a
// workspace of the profile, a budget, another option or the version of Ebb does.
std::string plan_file_name(const Graph& graph, const Device& device, const PlanOptions& options,
                           int seeds);

}  // namespace ebb::exec
