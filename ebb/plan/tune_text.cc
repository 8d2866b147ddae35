#include <fmt/format.h>

#include "ebb/graph/text_names.h"
#include "ebb/plan/tune.h"
#include "ebb/rewrite/lms_arguments.h"

namespace ebb {
namespace {

// "1.03x" of what the step takes without swapping.
std::string slow_down(const Tuning& tuning, const TuneTrial& trial) {
  const auto usual = static_cast<double>(tuning.as_it_is.step.count());
  if (usual <= 0) return "-";
  return fmt::format("{:.2f}x", static_cast<double>(trial.step.count()) / usual);
}

std::string row(const Tuning& tuning, const TuneTrial& trial) {
  const LmsOptions& with = trial.parameters;
  return fmt::format("{:>9}  {:>2}  {:<12}  {:<8}  {:>7}  {:>10}  {:>10}  {:>9}  {}\n",
                     with.n_tensors, with.lb, with.ctrld_strategy,
                     with.swap_branches ? "yes" : "no", trial.tensors_swapped, to_human(trial.peak),
                     to_human(trial.step), slow_down(tuning, trial), trial.fits ? "yes" : "no");
}

std::string recommendation(const Tuning& tuning) {
  if (!tuning.best) return "Nothing that was tried fits.\n";
  const TuneTrial& best = tuning.trials[*tuning.best];
  std::string out = fmt::format("Recommended: {} a step ({}), peak {}\n  ebb rewrite  {}\n",
                                to_human(best.step), slow_down(tuning, best), to_human(best.peak),
                                command_line_arguments(best.parameters));
  if (const auto python = python_arguments(best.parameters)) {
    out += fmt::format("  Python       LMS({})\n", *python);
  }
  return out;
}

}  // namespace

std::string to_text(const Tuning& tuning) {
  const TuneTrial& usual = tuning.as_it_is;
  const std::string where =
      usual.peak_node.empty() ? std::string() : fmt::format(" at '{}'", spelled(usual.peak_node));
  std::string out =
      fmt::format("Budget: {}; the step as it is: {}{}, {}\n\n", to_human(tuning.budget),
                  to_human(usual.peak), where, to_human(usual.step));
  out += fmt::format("{:>9}  {:>2}  {:<12}  {:<8}  {:>7}  {:>10}  {:>10}  {:>9}  {}\n", "n_tensors",
                     "lb", "strategy", "branches", "swapped", "peak", "step", "slow-down", "fits");
  for (const TuneTrial& trial : tuning.trials) out += row(tuning, trial);
  return out + "\n" + recommendation(tuning);
}

Error explain_misfit(const Graph& graph, const Tuning& tuning) {
  const TuneTrial& least = tuning.trials[tuning.least];
  std::string message = fmt::format(
      "nothing that was tried fits in {}: the least peak is {} ({}), at '{}', with {}; ",
      to_human(tuning.budget), to_human(least.peak), to_text(least.peak), spelled(least.peak_node),
      command_line_arguments(least.parameters));
  const Floor& floor = tuning.floor;
  if (floor.node.valid() && floor.bytes > tuning.budget) {
    message += fmt::format("'{}' alone needs {}: take a smaller batch, or more memory",
                           spelled(graph.name(floor.node)), to_human(floor.bytes));
  } else {
    message += "try 'ebb plan', which computes tensors again as well, or take a smaller batch";
  }
  return {.kind = ErrorKind::kInfeasible, .code = {}, .message = std::move(message), .place = {}};
}

}  // namespace ebb
