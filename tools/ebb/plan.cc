#include "ebb/plan/plan.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "commands.h"
#include "cost_options.h"
#include "ebb/base/file.h"
#include "ebb/plan/budget.h"
#include "ebb/plan/explain.h"
#include "ebb/plan/sweep.h"
#include "ebb/report/plan_summary.h"
#include "ebb/report/trace.h"
#include "input.h"
#include "progress.h"

namespace ebb::tool {
namespace {

struct PlanCommand {
  std::string input;
  std::string budget;
  std::string host_budget;
  std::string output;
  std::string trace;
  std::string explain;
  std::string sweep;
  std::string min_bytes = "1B";
  std::string time_limit;
  std::optional<std::uint32_t> evaluations;
  std::uint64_t seed = 1;
  bool no_swap = false;
  bool no_recompute = false;
  bool no_split = false;
  bool json = false;
  CostOptions costs;
  TensorFlowOptions tensorflow;
};

Status check_usage(const PlanCommand& command) {
  if (command.budget.empty() && command.sweep.empty()) {
    return fail(ErrorKind::kUsage, "give --budget, or --sweep with several of them");
  }
  if (!command.budget.empty() && !command.sweep.empty()) {
    return fail(ErrorKind::kUsage, "--budget and --sweep exclude each other; give one");
  }
  const int wanted = static_cast<int>(command.json) + static_cast<int>(!command.explain.empty()) +
                     static_cast<int>(command.output == "-") +
                     static_cast<int>(command.trace == "-");
  if (wanted > 1) {
    return fail(ErrorKind::kUsage,
                "--json, --explain, -o - and --trace - all want standard output; name files");
  }
  if (!command.output.empty() && std::filesystem::path(command.output).lexically_normal() ==
                                     std::filesystem::path(command.trace).lexically_normal()) {
    return fail(ErrorKind::kUsage, "the plan and the trace would be one file; give two names");
  }
  for (const std::string& output : {command.output, command.trace}) {
    if (auto ok = command.costs.check_output(output); !ok) return ok;
    if (!is_same_file(output, command.input)) continue;
    return fail(
        ErrorKind::kUsage,
        fmt::format("'{}' would be overwritten, which is read as well; name another file", output));
  }
  const bool wants_plan =
      !command.output.empty() || !command.trace.empty() || !command.explain.empty();
  if (!command.sweep.empty() && wants_plan) {
    return fail(ErrorKind::kUsage,
                "a sweep has many plans; take one of its budgets for -o, --trace and --explain");
  }
  if (command.no_swap && command.no_recompute) {
    return fail(ErrorKind::kUsage,
                "--no-swap and --no-recompute together leave nothing to plan with");
  }
  return {};
}

// The options of the planner; budgets are read when it is known what a per cent is of.
Result<PlanOptions> read_options(const PlanCommand& command, const CostModel& model) {
  PlanOptions options;
  options.profile = model.profile();
  options.may_swap = !command.no_swap;
  options.may_recompute = !command.no_recompute;
  options.may_split = !command.no_split;
  options.evaluations = command.evaluations;
  options.seed = command.seed;
  if (!command.host_budget.empty()) {
    const auto bytes = parse_bytes(command.host_budget);
    if (!bytes) return fail(ErrorKind::kUsage, "--host-budget: " + bytes.error().message);
    options.host_budget = *bytes;
  }
  const auto min_bytes = parse_bytes(command.min_bytes);
  if (!min_bytes) return fail(ErrorKind::kUsage, "--min-bytes: " + min_bytes.error().message);
  options.min_bytes = *min_bytes;
  if (!command.time_limit.empty()) {
    const auto limit = parse_duration(command.time_limit);
    if (!limit) return fail(ErrorKind::kUsage, "--time-limit: " + limit.error().message);
    const auto end = std::chrono::steady_clock::now() + *limit;
    options.is_out_of_time = [end] { return std::chrono::steady_clock::now() > end; };
  }
  return options;
}

Result<int> run_sweep(const PlanCommand& command, const Graph& graph, const CostModel& model,
                      const PlanOptions& options, Bytes unconstrained) {
  std::vector<Bytes> budgets;
  for (std::size_t begin = 0; begin <= command.sweep.size();) {
    const std::size_t end = std::min(command.sweep.find(',', begin), command.sweep.size());
    const auto budget = parse_budget(command.sweep.substr(begin, end - begin), unconstrained);
    if (!budget) return fail(budget.error());
    budgets.push_back(*budget);
    begin = end + 1;
  }
  Progress progress("planning");
  const auto done = sweep(graph, model.device, options, budgets, [&](std::size_t count) {
    progress.update(fmt::format("planning: budget {} of {}", count + 1, budgets.size()));
  });
  if (!done) return fail(in_file(done.error(), command.input));
  return write_file("-", command.json ? to_json(*done) : to_text(*done)).map([] { return 0; });
}

Result<Planned> plan_one(const PlanCommand& command, const Graph& graph, const CostModel& model,
                         PlanOptions options, Bytes unconstrained) {
  const auto budget = parse_budget(command.budget, unconstrained);
  if (!budget) return fail(budget.error());
  options.budget = *budget;
  Progress progress("planning");
  options.progress = [&](std::uint32_t done, std::uint32_t of, Duration best) {
    progress.update(fmt::format("planning: {} of {} steps simulated, the best takes {}", done, of,
                                to_human(best)));
  };
  auto planned = make_plan(graph, model.device, options);
  if (!planned) return fail(in_file(planned.error(), command.input));
  return planned;
}

// What is wrong with an option for this input, which is right itself.
tl::unexpected<Error> wrong_option(const Error& error, const std::string& input) {
  return fail(error.kind, fmt::format("{}: {}", shown_name(input), error.message));
}

Status write_outputs(const PlanCommand& command, const Graph& graph, const Planned& planned) {
  std::string explained;
  if (!command.explain.empty()) {
    auto text = explain_tensor(graph, planned, command.explain);
    if (!text) return wrong_option(text.error(), command.input);
    explained = std::move(*text);
  }
  const Plan& plan = *planned.plan;
  std::vector<FileContent> files;
  if (!command.output.empty()) files.push_back({command.output, to_text(plan.file)});
  if (!command.trace.empty()) {
    files.push_back({command.trace, to_trace(plan.graph, plan.timeline)});
  }
  if (auto ok = write_files(files); !ok) return ok;
  write_to_stderr(to_text(planned));
  if (!explained.empty()) return write_file("-", explained);
  return command.json ? write_file("-", to_json(planned)) : Status();
}

Result<int> run_plan(const PlanCommand& command) {
  if (auto ok = check_usage(command); !ok) return fail(ok.error());
  const auto model = command.costs.read(command.input);
  if (!model) return fail(model.error());
  const auto options = read_options(command, *model);
  if (!options) return fail(options.error());
  const auto input = read_valid_input(command.input, command.tensorflow);
  if (!input) return fail(input.error());
  const Graph& graph = input->graph();
  if (!command.explain.empty()) {  // planning may take long, or find nothing
    const auto tensor = find_explained(graph, command.explain);
    if (!tensor) return wrong_option(tensor.error(), command.input);
  }
  const auto unconstrained = unconstrained_bytes(graph, model->device, *options);
  if (!unconstrained) return fail(in_file(unconstrained.error(), command.input));
  const StepCosts costs = model->estimate(graph).value();
  write_to_stderr(unknown_operators_note(graph, costs));
  write_to_stderr(coverage_note(graph, *model, costs));
  if (!command.sweep.empty()) {
    return run_sweep(command, graph, *model, *options, *unconstrained);
  }
  const auto planned = plan_one(command, graph, *model, *options, *unconstrained);
  if (!planned) return fail(planned.error());
  if (planned->infeasible) {
    if (command.json) {
      if (auto ok = write_file("-", to_json(*planned)); !ok) return fail(ok.error());
    }
    write_to_stderr(explain_infeasible(*planned, *options));
    return fail(ErrorKind::kInfeasible, fmt::format("{}: {}", shown_name(command.input),
                                                    say_infeasible(*planned, *options)));
  }
  return write_outputs(command, graph, *planned).map([] { return 0; });
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanCommand>();
  CLI::App* command = app.add_subcommand(
      "plan", "Find what to swap and what to compute again so that a step fits a budget");
  command->add_option("IN", options->input, kInputHelp)->required();
  command
      ->add_option("--budget", options->budget,
                   "What the step may use: 16GiB, or 60% of the arena it needs as it is")
      ->type_name("SIZE|PERCENT");
  command
      ->add_option("-o", options->output,
                   "Write the plan here, for ebb apply; - is standard output")
      ->type_name("PLAN");
  command
      ->add_option("--host-budget", options->host_budget,
                   "What the host may hold of it at a time; as much as it takes by default")
      ->type_name("SIZE");
  command->add_flag("--no-swap", options->no_swap, "Swap nothing");
  command->add_flag("--no-recompute", options->no_recompute, "Compute nothing again");
  command->add_flag("--no-split", options->no_split, "Split no derivative of a convolution");
  command->add_option("--min-bytes", options->min_bytes, "Smaller tensors stay")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      ->add_option("--sweep", options->sweep,
                   "Plan for each of these budgets and print a table: 100%,80%,60%")
      ->type_name("BUDGET,..");
  command
      ->add_option("--explain", options->explain,
                   "Print what is done with this tensor, and what else would have come of it")
      ->type_name("TENSOR");
  command
      ->add_option("--trace", options->trace,
                   "Write the predicted timeline here, for ui.perfetto.dev")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print one JSON object");
  options->costs.add_options(*command);
  command
      ->add_option("--evaluations", options->evaluations,
                   "How many steps to simulate in search; by default what takes about a second; "
                   "layouts come on top")
      ->type_name("N");
  command->add_option("--seed", options->seed, "Of the search")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 62).description(""))
      ->capture_default_str();
  command
      ->add_option("--time-limit", options->time_limit,
                   "End the search after this time (2s), with the best so far; not reproducible")
      ->type_name("TIME");
  options->tensorflow.add_reading(*command);
  command->footer(
      "The plan is tried on the graph before it is written: proved to compute the same, laid out\n"
      "inside the budget, simulated. Equal inputs give equal plans. Where nothing fits the status\n"
      "is 4, and the message says what is in the way, and the least budget that was found.\n"
      "docs/planning.md says how plans are made.\n\n"
      "Examples:\n"
      "  ebb plan examples/resnet.ebb --budget 60% -o resnet.plan\n"
      "  ebb apply examples/resnet.ebb resnet.plan -o rewritten.ebb\n"
      "  ebb plan examples/unet.ebb --sweep 100%,80%,60%,50%\n"
      "  ebb plan step.ebb --budget 16GiB --model my-gpu.json --profile step.json --trace "
      "trace.json\n"
      "  ebb plan examples/transformer.ebb --budget 90% --explain h.0.mlp.gelu");
  return {command, [options] { return run_plan(*options); }};
}

}  // namespace ebb::tool
