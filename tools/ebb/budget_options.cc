#include "budget_options.h"

#include <fmt/format.h>

#include "ebb/base/file.h"
#include "ebb/report/plan_summary.h"
#include "lms_options.h"
#include "outcome.h"
#include "progress.h"

namespace ebb::tool {
namespace {

constexpr const char* kGroup = "By budget";

}  // namespace

void BudgetOptions::add_options(CLI::App& command) {
  command
      .add_option("--budget", budget_,
                  "What the step may hold on the device: 14GiB, or 60% of what it holds as it is.\n"
                  "Ebb chooses what to swap and what to compute again. TensorFlow's files only")
      ->type_name("SIZE|PERCENT")
      ->group(kGroup);
  command
      .add_option("--batch-size", batch_size_,
                  "Of inputs whose first dimension the graph leaves open")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kLargestBatch).description(""))
      ->group(kGroup);
  command
      .add_option("--host-budget", host_budget_,
                  "What the host may hold of it at a time; as much as it takes by default")
      ->type_name("SIZE")
      ->group(kGroup);
  costs_.add_options(command);
}

Status BudgetOptions::check(const CLI::App& command) const {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const std::string& group = option->get_group();
    const bool needs_budget = group == kGroup || group == kTimesGroup;
    if (!is_given() && needs_budget) {
      return fail(ErrorKind::kUsage, fmt::format("{} goes with --budget", option->get_name()));
    }
    if (is_given() && (group == kPaperGroup || group == kMoreGroup)) {
      return fail(ErrorKind::kUsage,
                  fmt::format("{} and --budget exclude each other: with a budget, Ebb chooses",
                              option->get_name()));
    }
  }
  return {};
}

Result<TensorFlowPlanned> BudgetOptions::plan(const InputGraph& input, SwapNodes nodes,
                                              bool json) const {
  if (!input.tensorflow) {
    return fail(ErrorKind::kUsage,
                fmt::format("{} is an .ebb text; plan it with 'ebb plan' and rewrite it with 'ebb "
                            "apply'. --budget is for TensorFlow's files",
                            shown_name(input.path)));
  }
  const auto model = costs_.read(input.path);
  if (!model) return fail(model.error());
  TensorFlowBudget budget{.budget = budget_, .batch_size = batch_size_, .clock = clock_of(nodes)};
  budget.plan.runs_as_a_whole = false;  // who loads the file may run parts of it
  budget.plan.profile = model->profile();
  if (!host_budget_.empty()) {
    const auto bytes = parse_bytes(host_budget_);
    if (!bytes) return fail(ErrorKind::kUsage, "--host-budget: " + bytes.error().message);
    budget.plan.host_budget = *bytes;
  }
  Progress progress("planning");
  budget.plan.progress = [&](std::uint32_t done, std::uint32_t of, Duration best) {
    progress.update(fmt::format("planning: {} of {} steps simulated, the best takes {}", done, of,
                                to_human(best)));
  };
  auto done = plan_for_tensorflow(input.graph(), model->device, budget);
  if (!done) {
    if (done.error().kind == ErrorKind::kUsage) return done;
    return fail(in_file(done.error(), input.path));
  }
  write_to_stderr(unranked_note(*done));
  if (done->planned.plan) return done;
  if (json) {
    if (auto ok = write_file("-", to_json(done->planned)); !ok) return fail(ok.error());
  }
  write_to_stderr(explain_infeasible(done->planned, budget.plan));
  return fail(ErrorKind::kInfeasible, fmt::format("{}: {}", shown_name(input.path),
                                                  say_infeasible(done->planned, budget.plan)));
}

}  // namespace ebb::tool
