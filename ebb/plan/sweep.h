// Plans for several budgets of one step: how much time does memory buy?
//
//   for (const SweepPoint& it : *sweep(graph, device, {.evaluations = 1000}, budgets)) ...
//
// A plan that fits into a smaller budget fits into a larger one. For each budget the fastest of all
// plans that were made and fit is taken, of equally fast ones the smaller, so with more memory a
// step is never slower, and its peak never lower.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/plan/plan.h"

namespace ebb {

struct SweepPoint {
  Bytes budget;
  std::shared_ptr<const Plan> plan;  // null where there is none
  Bytes least;                       // then, the least budget that was found
};

struct Sweep {
  std::vector<SweepPoint> points;  // from the smallest budget to the largest
  Bytes floor;
  Bytes unconstrained;
  Duration unconstrained_step{};
};

// options.budget is not looked at. `before_each` is told how many were done.
[[nodiscard]] Result<Sweep> sweep(const Graph& graph, const Device& device,
                                  const PlanOptions& options, std::span<const Bytes> budgets,
                                  const std::function<void(std::size_t)>& before_each = nullptr);

}  // namespace ebb
