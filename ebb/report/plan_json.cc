#include <nlohmann/json.hpp>

#include "ebb/report/plan_summary.h"

namespace ebb {
namespace {

using Json = nlohmann::ordered_json;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Json prediction(const Plan& plan) {
  const PlanCounts counts = count_moves(plan);
  Json stalls = Json::object();
  for (std::size_t i = 0; i < kStallCauseCount; ++i) {
    stalls[std::string(name_of(static_cast<StallCause>(i)))] = seconds(plan.timeline.stalled[i]);
  }
  const auto busy = [&](Lane lane) {
    return seconds(plan.timeline.busy[static_cast<std::size_t>(lane)]);
  };
  return {{"peak_bytes", plan.peak().count},
          {"host_bytes", plan.arena.host_size.count},
          {"step_seconds", seconds(plan.step())},
          {"bound_bytes", plan.arena.bound.count},
          {"tensors_swapped", counts.swapped},
          {"bytes_swapped", counts.swapped_bytes.count},
          {"tensors_recomputed", counts.recomputed},
          {"bytes_recomputed", counts.recomputed_bytes.count},
          {"clones", counts.clones},
          {"calls_split", counts.split},
          {"compute_seconds", busy(Lane::kCompute)},
          {"to_host_seconds", busy(Lane::kToHost)},
          {"to_device_seconds", busy(Lane::kToDevice)},
          {"stalled_seconds", stalls},
          {"evaluations", plan.evaluations},
          {"executor_edges",
           {{"order", plan.held.order_edges},
            {"release", plan.held.release_edges},
            {"refused", plan.held.refused}}}};
}

}  // namespace

std::string to_json(const Planned& planned) {
  Json out{{"feasible", planned.plan != nullptr},
           {"budget_bytes", planned.budget.count},
           {"floor_bytes", planned.floor.count},
           {"unconstrained_bytes", planned.unconstrained.count},
           {"unconstrained_seconds", seconds(planned.unconstrained_step)}};
  if (planned.plan) {
    out.update(prediction(*planned.plan));
    Json decisions = Json::array();
    for (const PlanFile::Line& line : planned.plan->file.decisions) decisions.push_back(line.text);
    out["decisions"] = std::move(decisions);
  } else {
    Json residents = Json::array();
    for (const Infeasible::Resident& it : planned.infeasible->residents) {
      residents.push_back({{"what", it.what}, {"bytes", it.size.count}, {"why", it.why}});
    }
    out["least_budget_bytes"] = planned.infeasible->least.count;
    out["host_is_short"] = planned.infeasible->host_is_short;
    out["operation"] = planned.infeasible->operation;
    out["residents"] = std::move(residents);
  }
  return out.dump(2) + "\n";
}

std::string to_json(const Sweep& sweep) {
  Json points = Json::array();
  for (const SweepPoint& point : sweep.points) {
    Json it{{"budget_bytes", point.budget.count}, {"feasible", point.plan != nullptr}};
    if (point.plan) {
      it.update(prediction(*point.plan));
    } else {
      it["least_budget_bytes"] = point.least.count;
    }
    points.push_back(std::move(it));
  }
  const Json out{{"floor_bytes", sweep.floor.count},
                 {"unconstrained_bytes", sweep.unconstrained.count},
                 {"unconstrained_seconds", seconds(sweep.unconstrained_step)},
                 {"points", std::move(points)}};
  return out.dump(2) + "\n";
}

}  // namespace ebb
