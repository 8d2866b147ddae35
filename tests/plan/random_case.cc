#include "tests/plan/random_case.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/print.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/validate.h"
#include "tests/plan/dice.h"
#include "tests/plan/random_step.h"

namespace ebb {
namespace {

// What is wrong with the plan, or nothing. It is read back from its text first, as a user's is.
std::string problem_of(const PlanCase& it, const Planned& planned, const Plan& plan) {
  const PlanOptions& options = it.options;
  const auto file = parse_plan(to_text(plan.file));
  if (!file) return file.error().render("plan");
  const Status right = validate_plan(it.graph, *file, it.device, options.profile);
  if (!right) return right.error().message;
  if (file->budget != options.budget || file->host_budget != options.host_budget) {
    return "it has another budget";
  }
  if (file->peak != plan.peak() || file->step != plan.step()) return "the file is of another plan";
  if (print(apply_plan(it.graph, *file)->graph) != print(plan.graph)) return "another graph";
  if (!options.may_swap && decides(*file, "swap")) return "swaps are not allowed";
  if (!options.may_recompute && decides(*file, "recompute")) return "recomputing is not allowed";
  if (planned.infeasible) return "it is infeasible as well";
  if (plan.timeline.device_peak > plan.arena.size) return "the timeline holds more than the arena";
  if (plan.timeline.host_peak > plan.arena.host_size) return "the timeline holds more on the host";
  if (plan.peak() < planned.floor) return "it is below the floor of " + to_text(planned.floor);
  if (plan.step() < planned.unconstrained_step) return "it is faster than without a budget";
  if (options.budget >= planned.unconstrained && !plan.file.decisions.empty()) {
    return "something is moved, and everything fits";
  }
  return {};
}

}  // namespace

std::string PlanCase::text() const {
  std::string out = fmt::format("budget {}", to_text(options.budget));
  if (options.host_budget) out += ", host budget " + to_text(*options.host_budget);
  if (!options.may_swap) out += ", no swaps";
  if (!options.may_recompute) out += ", no recomputing";
  if (options.min_bytes != Bytes{1}) out += ", from " + to_text(options.min_bytes);
  out += fmt::format(", seed {}", options.seed);
  return fmt::format("{}\n{}{}", out, to_json(device), print(graph));
}

PlanCase random_case(std::uint64_t seed) {
  Dice dice(seed);
  const int layers = static_cast<int>(1 + dice.below(dice.one_in(10) ? 40 : 16));
  PlanCase made{.graph = random_step(seed, {.layers = layers, .plain = dice.one_in(4)}),
                .device = random_device(seed),
                .options = {.evaluations = 30, .seed = seed}};
  const Bytes all = unconstrained_bytes(made.graph, made.device, {}).value();
  const Bytes floor = find_floor(made.graph).bytes;
  const auto percent = static_cast<std::int64_t>(dice.below(110));  // of the way between the two
  const auto nearly = static_cast<std::int64_t>(dice.below(3)) - 1;
  made.options.budget = floor + Bytes{(all - floor).count * percent / 100};
  if (dice.one_in(12)) made.options.budget = all + Bytes{nearly};
  if (dice.one_in(24)) made.options.budget = Bytes{floor.count * percent / 110};
  if (dice.one_in(5)) {
    made.options.host_budget =
        Bytes{static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(all.count) + 1))};
  }
  if (dice.one_in(8)) made.options.may_swap = false;
  if (dice.one_in(4)) made.options.may_recompute = false;
  if (dice.one_in(8)) made.options.min_bytes = Bytes{100};
  return made;
}

bool decides(const PlanFile& plan, std::string_view rule) {
  return std::any_of(plan.decisions.begin(), plan.decisions.end(),
                     [&](const PlanFile::Line& line) { return line.text.starts_with(rule); });
}

std::string problem_of(const PlanCase& it) {
  try {
    const auto planned = make_plan(it.graph, it.device, it.options);
    if (!planned) return planned.error().message;
    if (planned->plan) return problem_of(it, *planned, *planned->plan);
    if (!planned->infeasible) return "there is no plan, and no reason";
    const Bytes least = planned->infeasible->least;
    if (planned->infeasible->host_is_short) return {};
    if (least <= it.options.budget) return "infeasible, and yet the least is " + to_text(least);
    PlanCase again = it;
    again.options.budget = least;
    const auto enough = make_plan(again.graph, again.device, again.options);
    if (!enough) return enough.error().message;
    if (enough->plan) return problem_of(again, *enough, *enough->plan);
    return fmt::format("no plan for the least budget, {}", to_text(least));
  } catch (const InternalError& error) {
    return error.what();
  }
}

}  // namespace ebb
