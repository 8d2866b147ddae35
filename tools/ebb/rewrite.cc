#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "budget_options.h"
#include "commands.h"
#include "ebb/base/file.h"
#include "ebb/export/rewrite_functions.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/report/plan_summary.h"
#include "ebb/rewrite/lms_rewrite.h"
#include "ebb/rewrite/plan_file.h"
#include "input.h"
#include "lms_options.h"
#include "progress.h"
#include "rewritten_output.h"

namespace ebb::tool {
namespace {

struct RewriteOptions {
  RewrittenOutput output;
  std::string input;
  std::string plan;  // where to write the decisions; empty: nowhere
  LmsOptions lms;
  BudgetOptions budget;
  TensorFlowOptions tensorflow;
  bool json = false;
};

// A graph that was rewritten before may be rewritten further; who did not mean to should know.
std::string before_note(const Graph& graph) {
  std::size_t swap_outs = 0;
  std::size_t clones = 0;
  for (const NodeId node : graph.nodes()) {
    swap_outs += graph.op(node) == kSwapOut ? 1 : 0;
    clones += graph.clone_of(node).valid() ? 1 : 0;
  }
  if (swap_outs + clones == 0) return {};
  return fmt::format(
      "Rewritten before: {} swap-out{} and {} clone{} are there already, and stay as they are\n",
      swap_outs, swap_outs == 1 ? "" : "s", clones, clones == 1 ? "" : "s");
}

// The functions in the library of a file of TensorFlow's, which the graph may only call. They are
// put into the graph's file; nothing is done for other files.
Result<std::vector<FunctionOutcome>> rewrite_library(InputGraph& input,
                                                     const RewriteOptions& options) {
  if (!input.tensorflow) return std::vector<FunctionOutcome>();
  auto done = rewrite_functions(input.tensorflow->graphdef(), options.lms,
                                options.tensorflow.reading(), options.tensorflow.writing());
  if (!done) return fail(in_file(done.error(), input.path));
  if (!was_any_rewritten(done->functions)) return std::move(done->functions);
  if (!options.plan.empty()) {
    return fail(ErrorKind::kUsage,
                "--save-plan: a plan is about the graph, and here functions are rewritten too; "
                "write the graph without a plan");
  }
  auto graph = import_graphdef(done->graphdef, options.tensorflow.reading());
  if (!graph) return fail(in_file(graph.error(), input.path));
  input.parsed.graph = *std::move(graph);
  return std::move(done->functions);
}

Result<LmsRewritten> rewrite_graph(const Graph& graph, const RewriteOptions& options,
                                   bool may_lack_scopes) {
  const Progress progress("rewriting");
  auto done = rewrite_by_lms(graph, options.lms, options.output.rewriting());
  if (done || !may_lack_scopes || done.error().kind != ErrorKind::kUsage) return done;
  // The step is in a function, and so are its scopes: the graph stays as it is.
  LmsOptions nothing;
  nothing.n_tensors = 0;
  return rewrite_by_lms(graph, nothing, options.output.rewriting());
}

// A budget is of the graph itself. What its functions hold would not be counted.
Status check_step_is_no_function(const RewriteOptions& options, const InputGraph& input) {
  if (!input.tensorflow) return {};
  const auto function =
      find_training_function(input.tensorflow->graphdef(), options.tensorflow.reading());
  if (!function) return fail(in_file(function.error(), input.path));
  if (function->empty()) return {};
  if (has_backward_phase(input.graph())) {
    write_to_stderr(
        fmt::format("Note: '{}' and other functions that the graph may call are not in the plan\n",
                    printable(*function)));
    return {};
  }
  return fail(
      ErrorKind::kBadInput,
      fmt::format("{}: the training step is the function '{}', and a budget is planned for the "
                  "graph itself; give the graph of the function (concrete_function.graph), or run "
                  "it with ebb.tensorflow.enable(budget=...)",
                  shown_name(input.path), printable(*function)));
}

Result<int> rewrite_by_budget(const RewriteOptions& options, const InputGraph& input, Form form) {
  if (!options.plan.empty()) {
    return fail(ErrorKind::kUsage, "--save-plan has no say with --budget: write the graph");
  }
  if (Status ok = check_step_is_no_function(options, input); !ok) return fail(ok.error());
  const auto done =
      options.budget.plan(input, options.tensorflow.writing().swap_nodes, options.json);
  if (!done) return fail(done.error());
  const auto written = [&] {
    const Progress progress("writing");
    return in_form(form, input, done->rewritten, options.tensorflow);
  }();
  if (!written) return fail(written.error());
  if (auto ok = write_file(options.output.path, *written); !ok) return fail(ok.error());
  write_to_stderr(to_text(done->planned));
  if (!options.json) return 0;
  return write_file("-", to_json(done->planned)).map([] { return 0; });
}

Result<int> rewrite(const RewriteOptions& options) {
  if (auto ok = options.output.check(options.json, options.plan); !ok) return fail(ok.error());
  if (options.plan == "-" && options.json) {
    return fail(ErrorKind::kUsage, "--json and the plan both want standard output; name a file");
  }
  if (!options.plan.empty() && options.plan != "-" && are_one_file(options.plan, options.input)) {
    return fail(ErrorKind::kUsage,
                fmt::format("the plan would replace the graph '{}'; give another name",
                            printable(options.plan)));
  }
  auto input = read_valid_input(options.input, options.tensorflow);
  if (!input) return fail(input.error());
  const auto form = options.output.form(*input, options.tensorflow);
  if (!form) return fail(form.error());
  if (options.budget.is_given()) return rewrite_by_budget(options, *input, *form);
  if (auto ok = check_codec(*form, options.lms); !ok) return fail(ok.error());
  const auto start = std::chrono::steady_clock::now();
  const auto functions = rewrite_library(*input, options);
  if (!functions) return fail(functions.error());
  const Graph& graph = input->graph();
  auto done = rewrite_graph(graph, options, was_any_rewritten(*functions));
  if (!done) return fail(done.error());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  auto written = [&] {
    const Progress progress("writing");
    return in_form(*form, *input, done->graph, options.tensorflow);
  }();
  if (!written) return fail(written.error());
  std::vector<FileContent> files;
  if (!options.plan.empty()) {
    files.push_back({options.plan, to_text(plan_of(graph, done->graph, done->journal))});
  }
  files.push_back({options.output.path, *std::move(written)});
  if (auto ok = write_files(files); !ok) return fail(ok.error());
  write_to_stderr(before_note(graph) + lms_summary(graph, *done) + functions_summary(*functions));
  if (!options.json) return 0;
  const std::string json = lms_json(graph, *done, took.count());
  return write_file("-", with_functions_json(json, *functions)).map([] { return 0; });
}

}  // namespace

Command add_rewrite(CLI::App& app) {
  auto options = std::make_shared<RewriteOptions>();
  CLI::App* command = app.add_subcommand(
      "rewrite",
      "Swap tensors to the host and back, chosen by the paper's parameters or by a budget");
  command->add_option("IN", options->input, kInputHelp)->required();
  options->output.add_options(*command);
  command->add_option("--save-plan", options->plan, "Write the decisions too, for 'ebb apply'");
  command->add_flag("--json", options->json, "Print what was done as one JSON object");
  add_lms_options(*command, options->lms);
  options->budget.add_options(*command);
  options->tensorflow.add_reading(*command);
  options->tensorflow.add_writing(*command);
  command->footer(
      "The result is verified, and proved to be the same computation, before it is written.\n"
      "A scope is one or more whole components of a name: 'adam' is in step/adam/mul, not in\n"
      "adam2/mul. Lists are given with commas. docs/paper.md explains every parameter.\n\n"
      "Examples:\n"
      "  ebb rewrite graph.pb -o rewritten.pb --optimizer-scopes adam_optimizer\n"
      "  ebb rewrite graph.pb -o rewritten.pb --budget 14GiB --batch-size 256\n"
      "  ebb rewrite step.ebb -o rewritten.ebb\n"
      "  ebb rewrite step.ebb -o rewritten.ebb --ctrld-strategy direct_order --lb 3 --n-tensors "
      "20\n"
      "  ebb rewrite step.ebb -o - --fuse-swapins --excl-types relu | ebb show -");
  return {command, [options, command]() -> Result<int> {
            if (auto ok = options->budget.check(*command); !ok) return fail(ok.error());
            return rewrite(*options);
          }};
}

}  // namespace ebb::tool
