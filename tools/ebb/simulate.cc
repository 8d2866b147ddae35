#include "ebb/plan/simulate.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "commands.h"
#include "cost_options.h"
#include "ebb/base/file.h"
#include "ebb/export/graphdef.h"
#include "ebb/import/complete_shapes.h"
#include "ebb/plan/plan_tensorflow.h"
#include "ebb/report/timeline_summary.h"
#include "ebb/report/trace.h"
#include "input.h"
#include "outcome.h"

namespace ebb::tool {
namespace {

struct SimulateCommand {
  std::string input;
  std::string trace;
  std::optional<std::int64_t> batch_size;
  bool json = false;
  CostOptions costs;
  TensorFlowOptions tensorflow;
};

Status check_usage(const SimulateCommand& command) {
  if (command.json && command.trace == "-") {
    return fail(ErrorKind::kUsage, "--json and --trace - both want standard output; name a file");
  }
  if (command.trace.empty()) return {};
  if (is_same_file(command.trace, command.input)) {
    return fail(ErrorKind::kUsage, "the trace would overwrite the graph; name another file");
  }
  return command.costs.check_output(command.trace);
}

// A text has sizes, unless it was converted from a file of TensorFlow's that leaves some open.
Status check_batch_size(const SimulateCommand& command, const InputGraph& input) {
  if (!command.batch_size || input.tensorflow) return {};
  const Graph& graph = input.graph();
  const bool is_open = std::ranges::any_of(graph.tensors(), [&](TensorId tensor) {
    const TensorType& type = graph.type(tensor);
    return type.ranked && std::ranges::find(type.dims, TensorType::kUnknownDim) != type.dims.end();
  });
  if (is_open) return {};
  return fail(ErrorKind::kUsage,
              fmt::format("--batch-size is for TensorFlow's files, which leave sizes open; {} is "
                          "an .ebb text, where every tensor has its size",
                          shown_name(input.path)));
}

Result<int> run_simulate(const SimulateCommand& command) {
  if (auto ok = check_usage(command); !ok) return fail(ok.error());
  const auto model = command.costs.read(command.input);
  if (!model) return fail(model.error());
  const auto input = read_valid_input(command.input, command.tensorflow);
  if (!input) return fail(input.error());
  if (auto ok = check_batch_size(command, *input); !ok) return fail(ok.error());
  Graph graph = input->graph();
  if (command.batch_size) complete_shapes(graph, *command.batch_size);
  if (input->tensorflow) {
    if (const auto ok = empty_without_rank(graph); !ok)
      return fail(in_file(ok.error(), command.input));
  }
  const auto costs = model->estimate(graph);
  if (!costs) return fail(in_file(costs.error(), command.input));
  write_to_stderr(unknown_operators_note(graph, *costs));
  // TensorFlow's executor goes on while kernels and copies are under way; Ebb's runtime does not.
  const Clock clock = input->tensorflow ? clock_of(swap_nodes_of(input->tensorflow->graphdef()))
                                        : Clock::kCompleted;
  const Timeline timeline = simulate(graph, *costs, clock);
  if (!command.trace.empty()) {
    if (auto ok = write_file(command.trace, to_trace(graph, timeline)); !ok)
      return fail(ok.error());
  }
  if (command.trace == "-") return 0;
  return write_file("-", command.json ? to_json(timeline) : to_text(timeline)).map([] {
    return 0;
  });
}

}  // namespace

Command add_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateCommand>();
  CLI::App* command = app.add_subcommand(
      "simulate", "How long a step takes and what it holds, as it stands, by simulation");
  command->add_option("IN", options->input, kInputHelp)->required();
  command->add_flag("--json", options->json, "Print one JSON object instead");
  command->add_option("--trace", options->trace, "Write the timeline for ui.perfetto.dev")
      ->type_name("FILE");
  command
      ->add_option("--batch-size", options->batch_size,
                   "Of inputs whose first dimension the graph leaves open")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kLargestBatch).description(""));
  options->costs.add_options(*command);
  options->tensorflow.add_reading(*command);
  command->footer(
      "Operations run in the order of their lines. For a TensorFlow file bytes change hands when\n"
      "operations are enqueued, as its executor has it; for a text when they have ended.\n\n"
      "Examples:\n"
      "  ebb simulate examples/resnet.ebb\n"
      "  ebb rewrite graph.pb -o swapped.pb --lb 5 && ebb simulate swapped.pb --model p100-nvlink\n"
      "  ebb simulate step.ebb --profile step.json --trace timeline.json");
  return {command, [options] { return run_simulate(*options); }};
}

}  // namespace ebb::tool
