#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "ebb/base/file.h"
#include "ebb/import/graphdef_file_node.h"
#include "ebb/rewrite/plan_file.h"
#include "ebb/rewrite/proof.h"
#include "input.h"
#include "progress.h"
#include "rewritten_output.h"

namespace ebb::tool {
namespace {

struct ApplyOptions {
  RewrittenOutput output;
  std::string input;
  std::string plan;
  TensorFlowOptions tensorflow;
  bool json = false;
};

Result<Applied> read_and_apply(const ApplyOptions& options, const Graph& graph) {
  const auto in_plan = [&](Error error) {
    error.message = error.render(shown_name(options.plan));
    error.code.clear();
    error.place = {};
    return fail(std::move(error));
  };
  const auto text = read_file(options.plan);
  if (!text) return fail(text.error());
  const auto plan = parse_plan(*text);
  if (!plan) return in_plan(plan.error());
  const Progress progress("rewriting");
  auto applied = apply_plan(graph, *plan, options.output.rewriting());
  if (!applied) return in_plan(applied.error());
  return applied;
}

std::string json_text(const Graph& graph, const Applied& applied) {
  const nlohmann::ordered_json out{
      {"nodes_before", counted_nodes(graph)}, {"nodes_after", counted_nodes(applied.graph)},
      {"decisions", applied.decisions},       {"swap_outs", applied.proof.swap_outs},
      {"swap_ins", applied.proof.swap_ins},   {"encodes", applied.proof.encodes},
      {"decodes", applied.proof.decodes},     {"snapshots", applied.proof.snapshots},
      {"clones", applied.proof.clones},       {"splits", applied.proof.splits}};
  return out.dump(2) + "\n";
}

Result<int> apply(const ApplyOptions& options) {
  if (auto ok =
          options.output.check(options.json, options.plan == "-" ? std::string() : options.plan);
      !ok)
    return fail(ok.error());
  if (options.input == "-" && options.plan == "-") {
    return fail(ErrorKind::kUsage, "standard input can be the graph or the plan, not both");
  }
  const auto input = read_valid_input(options.input, options.tensorflow);
  if (!input) return fail(input.error());
  const auto form = options.output.form(*input, options.tensorflow);
  if (!form) return fail(form.error());
  const auto applied = read_and_apply(options, input->graph());
  if (!applied) return fail(applied.error());
  const auto written = [&] {
    const Progress progress("writing");
    return in_form(*form, *input, applied->graph, options.tensorflow);
  }();
  if (!written) return fail(written.error());
  if (auto ok = write_file(options.output.path, *written); !ok) return fail(ok.error());
  write_to_stderr(fmt::format("Applied {} decision{}: {}\n", applied->decisions,
                              applied->decisions == 1 ? "" : "s", to_text(applied->proof)));
  if (!options.json) return 0;
  return write_file("-", json_text(input->graph(), *applied)).map([] { return 0; });
}

}  // namespace

Command add_apply(CLI::App& app) {
  auto options = std::make_shared<ApplyOptions>();
  CLI::App* command =
      app.add_subcommand("apply", "Rewrite a graph by the decisions of a plan file");
  command->add_option("IN", options->input, kInputHelp)->required();
  command->add_option("PLAN", options->plan, "The plan, made for this graph; - is standard input")
      ->required();
  options->output.add_options(*command);
  command->add_flag("--json", options->json, "Print what was done as one JSON object");
  options->tensorflow.add_reading(*command);
  options->tensorflow.add_writing(*command);
  command->footer(
      "A decision that does not apply is named with its line, and nothing is written: status 3.\n"
      "The result is verified, and proved to be the same computation, before it is written.\n"
      "docs/rules.md has the form of plans and what each decision does.\n\n"
      "Examples:\n"
      "  ebb rewrite step.ebb -o rewritten.ebb --save-plan step.plan\n"
      "  ebb apply step.ebb step.plan -o again.ebb\n"
      "  ebb apply graph.pb graph.plan -o rewritten.pb\n"
      "  ebb apply step.ebb step.plan -o again.ebb --dump-after=each 2> steps.txt");
  return {command, [options] { return apply(*options); }};
}

}  // namespace ebb::tool
