#include "ebb/plan/tune.h"

#include <memory>

#include <fmt/format.h>

#include "commands.h"
#include "cost_options.h"
#include "ebb/base/file.h"
#include "ebb/plan/budget.h"
#include "ebb/rewrite/lms_rewrite.h"
#include "input.h"
#include "lms_options.h"
#include "progress.h"
#include "rewritten_output.h"

namespace ebb::tool {
namespace {

struct TuneCommand {
  std::string input;
  std::string budget;
  RewrittenOutput output;  // an empty path: nowhere
  CostOptions costs;
  LmsOptions fixed;
  TensorFlowOptions tensorflow;
  bool json = false;
};

Status check_output(const TuneCommand& command) {
  if (command.output.path.empty()) return command.tensorflow.check_not_writing("nothing: give -o");
  if (command.output.path == "-") {
    return fail(ErrorKind::kUsage,
                "the trials and the graph both want standard output; name a file");
  }
  return command.output.check(command.json, {});
}

Result<Tuning> tune_by(const TuneCommand& command, const Graph& graph, const CostModel& model) {
  const auto costs = model.estimate(graph);
  if (!costs) return fail(in_file(costs.error(), command.input));
  write_to_stderr(unknown_operators_note(graph, *costs));
  const auto budget = parse_budget(command.budget, find_peak(graph, *costs).bytes);
  if (!budget) return fail(budget.error());
  TuneOptions options{.budget = *budget, .fixed = command.fixed};
  Progress progress("tuning");
  options.before_trial = [&](std::size_t number) {
    progress.update(fmt::format("tuning: trial {}, of at most {}", number, options.most_trials));
  };
  auto tuning = tune(graph, model.device, options, model.profile());
  if (!tuning && tuning.error().kind == ErrorKind::kBadInput) {
    return fail(in_file(tuning.error(), command.input));
  }
  return tuning;
}

// As `ebb rewrite` would with these parameters.
Status write_rewritten(const TuneCommand& command, const InputGraph& input, Form form,
                       const LmsOptions& parameters) {
  const Progress progress("writing");
  const auto done = rewrite_by_lms(input.graph(), parameters, command.output.rewriting());
  if (!done) return fail(done.error());
  const auto written = in_form(form, input, done->graph, command.tensorflow);
  if (!written) return fail(written.error());
  if (auto ok = write_file(command.output.path, *written); !ok) return ok;
  write_to_stderr(lms_summary(input.graph(), *done));
  return {};
}

Result<int> run_tune(const TuneCommand& command) {
  if (auto ok = check_output(command); !ok) return fail(ok.error());
  const auto model = command.costs.read(command.input);
  if (!model) return fail(model.error());
  const auto input = read_valid_input(command.input, command.tensorflow);
  if (!input) return fail(input.error());
  const auto form = command.output.form(*input, command.tensorflow);
  if (!form) return fail(form.error());
  if (auto ok = check_codec(*form, command.fixed); !ok) return fail(ok.error());
  const auto tuning = tune_by(command, input->graph(), *model);
  if (!tuning) return fail(tuning.error());
  if (tuning->best && !command.output.path.empty()) {
    const LmsOptions& parameters = tuning->trials[*tuning->best].parameters;
    if (auto ok = write_rewritten(command, *input, *form, parameters); !ok) return fail(ok.error());
  }
  const std::string said = command.json ? to_json(*tuning) : to_text(*tuning);
  if (auto ok = write_file("-", said); !ok) return fail(ok.error());
  if (!tuning->best) return fail(explain_misfit(input->graph(), *tuning));
  return 0;
}

}  // namespace

Command add_tune(CLI::App& app) {
  auto options = std::make_shared<TuneCommand>();
  CLI::App* command = app.add_subcommand(
      "tune", "Find the paper's parameters that fit a budget and cost least time");
  command->add_option("IN", options->input, kInputHelp)->required();
  command
      ->add_option("--budget", options->budget,
                   "What the step may use: 16GiB, or 60% of what it uses as it is")
      ->type_name("SIZE|PERCENT")
      ->required();
  options->output.add_optional(*command);
  command->add_flag("--json", options->json, "Print one JSON object instead");
  options->costs.add_options(*command);
  add_untuned_lms_options(*command, options->fixed);
  options->tensorflow.add_reading(*command);
  options->tensorflow.add_writing(*command);
  command->footer(
      "Tried are n_tensors, lb, ctrld_strategy and swap_branches, each by rewriting and "
      "simulating\n"
      "the step: all tensors as late as possible, then earlier, then fewer tensors. The other\n"
      "parameters hold for all trials. Where nothing fits the status is 4.\n\n"
      "Examples:\n"
      "  ebb tune examples/resnet.ebb --budget 60%\n"
      "  ebb tune graph.pb --budget 16GiB --optimizer-scopes adam_optimizer -o rewritten.pb\n"
      "  ebb tune step.ebb --budget 40GB --model my-gpu.json --profile step.json --json");
  return {command, [options] { return run_tune(*options); }};
}

}  // namespace ebb::tool
