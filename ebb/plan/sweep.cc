#include "ebb/plan/sweep.h"

#include <algorithm>
#include <tuple>

namespace ebb {

Result<Sweep> sweep(const Graph& graph, const Device& device, const PlanOptions& options,
                    std::span<const Bytes> budgets,
                    const std::function<void(std::size_t)>& before_each) {
  Sweep out;
  for (const Bytes budget : budgets) out.points.push_back({budget, nullptr, Bytes{}});
  const auto smaller = [](const SweepPoint& a, const SweepPoint& b) { return a.budget < b.budget; };
  std::stable_sort(out.points.begin(), out.points.end(), smaller);
  std::vector<std::shared_ptr<const Plan>> made;
  for (std::size_t i = 0; i < out.points.size(); ++i) {
    if (before_each) before_each(i);
    PlanOptions each = options;
    each.budget = out.points[i].budget;
    auto planned = make_plan(graph, device, each);
    if (!planned) return fail(planned.error());
    if (planned->plan) made.emplace_back(std::move(planned->plan));
    if (planned->infeasible) out.points[i].least = planned->infeasible->least;
    out.floor = planned->floor;
    out.unconstrained = planned->unconstrained;
    out.unconstrained_step = planned->unconstrained_step;
  }
  for (SweepPoint& point : out.points) {
    for (const auto& plan : made) {
      if (plan->peak() > point.budget) continue;
      const auto rank = [](const Plan& it) { return std::tuple(it.step(), it.peak()); };
      if (!point.plan || rank(*plan) < rank(*point.plan)) point.plan = plan;
    }
  }
  return out;
}

}  // namespace ebb
