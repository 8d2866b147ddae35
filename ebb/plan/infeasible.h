// Why there is no plan: where the one that needs least holds most, and what is there then.
#pragma once

#include "ebb/plan/may_do.h"
#include "ebb/plan/plan.h"

namespace ebb {

// The graph with the workspaces of the costs, of which a profile knows some that the text does not.
Graph with_workspaces(Graph graph, const StepCosts& costs);

// `model` and `refusals` are what was known in the end, `options` what the plan was made with.
Infeasible explain_peak(const Plan& least, const StepModel& model, const Refusals& refusals,
                        const PlanOptions& options);

}  // namespace ebb
