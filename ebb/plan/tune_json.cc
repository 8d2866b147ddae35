#include <nlohmann/json.hpp>

#include "ebb/plan/tune.h"
#include "ebb/rewrite/lms_arguments.h"

namespace ebb {
namespace {

using OrderedJson = nlohmann::ordered_json;

double seconds(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }

OrderedJson json(const TuneTrial& trial) {
  return {{"n_tensors", trial.parameters.n_tensors},
          {"lb", trial.parameters.lb},
          {"ctrld_strategy", trial.parameters.ctrld_strategy},
          {"swap_branches", trial.parameters.swap_branches},
          {"tensors_swapped", trial.tensors_swapped},
          {"bytes_swapped", trial.bytes_swapped.count},
          {"peak_bytes", trial.peak.count},
          {"peak_node", trial.peak_node.empty() ? OrderedJson() : OrderedJson(trial.peak_node)},
          {"host_bytes", trial.host_peak.count},
          {"step_seconds", seconds(trial.step)},
          {"fits", trial.fits}};
}

OrderedJson recommended(const Tuning& tuning) {
  if (!tuning.best) return nullptr;
  const TuneTrial& best = tuning.trials[*tuning.best];
  OrderedJson out = json(best);
  out["arguments"] = command_line_arguments(best.parameters);
  const auto python = python_arguments(best.parameters);
  out["python"] = python ? OrderedJson("LMS(" + *python + ")") : OrderedJson();
  return out;
}

}  // namespace

std::string to_json(const Tuning& tuning) {
  OrderedJson trials = OrderedJson::array();
  for (const TuneTrial& trial : tuning.trials) trials.push_back(json(trial));
  const OrderedJson out{{"budget_bytes", tuning.budget.count},
                        {"unconstrained_bytes", tuning.as_it_is.peak.count},
                        {"unconstrained_seconds", seconds(tuning.as_it_is.step)},
                        {"trials", std::move(trials)},
                        {"recommended", recommended(tuning)}};
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ebb
