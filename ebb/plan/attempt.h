// One attempt at a plan: a step with some of its calls split, by keeping, swapping and computing
// again. For plan.cc, which makes several.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/plan.h"

namespace ebb {

// What there is to plan, and what holds for all attempts at it.
struct PlanTask {
  const Graph& graph;
  const Device& device;
  PlanOptions options;
  Duration unconstrained_step;
  bool is_confirming = false;  // it is asked whether a budget does
};

struct PlanOutcome {
  std::unique_ptr<Plan> plan;   // null where none fits
  std::unique_ptr<Plan> least;  // what needs least of all that was found, then
  bool host_is_short = false;
  Infeasible why;  // of the least; of the plan where it is a confirmation
  std::uint32_t evaluations = 0;

  [[nodiscard]] const Plan& best() const { return plan ? *plan : *least; }
};

// Asks the planner for choices, applies them, proves the result, lays it out and simulates it, and
// asks again with less where that does not fit. Fails (kBadInput) as make_plan does.
[[nodiscard]] Result<PlanOutcome> attempt_plan(const PlanTask& task,
                                               const std::vector<NodeId>& splits);

// The plan of a file that makes these splits; `rewritten` is the graph after all its decisions.
[[nodiscard]] Result<std::unique_ptr<Plan>> take_plan(const PlanTask& task,
                                                      const std::vector<NodeId>& splits,
                                                      const PlanFile& file, Graph rewritten);

[[nodiscard]] bool fits(const Plan& plan, const PlanOptions& options);

// What the step takes: its layout in an arena of that budget, or what an allocator has given out by
// its timeline.
Arena arrange_step(const Graph& graph, const StepCosts& costs, const Timeline& timeline,
                   const Device& device, Clock clock, Bytes budget);

}  // namespace ebb
