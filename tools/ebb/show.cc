#include <memory>

#include "commands.h"
#include "ebb/base/file.h"
#include "ebb/graph/dot.h"
#include "ebb/report/summary.h"
#include "input.h"
#include "progress.h"

namespace ebb::tool {
namespace {

struct ShowOptions {
  std::string input;
  TensorFlowOptions tensorflow;
  bool json = false;
  bool dot = false;
  bool lines = false;
};

Result<int> show(const ShowOptions& options) {
  const auto input = read_valid_input(options.input, options.tensorflow);
  if (!input) return fail(input.error());
  const Graph& graph = input->graph();
  std::string text;
  if (options.dot) {
    text = to_dot(graph);
  } else {
    const Progress progress("measuring");
    const Summary summary = summarize(graph);
    text = options.json    ? to_json(graph, summary)
           : options.lines ? lines_table(graph, summary)
                           : to_text(graph, summary);
  }
  return write_file("-", text).map([] { return 0; });
}

}  // namespace

Command add_show(CLI::App& app) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand(
      "show", "What a graph holds and needs: counts, order, memory curve, peak, floor");
  command->add_option("IN", options->input, kInputHelp)->required();
  auto* json = command->add_flag("--json", options->json, "Print one JSON object instead");
  auto* dot = command->add_flag("--dot", options->dot, "Print the graph for Graphviz instead");
  auto* lines = command->add_flag("--lines", options->lines,
                                  "Print every line with its γ and the memory it runs in instead");
  json->excludes(dot)->excludes(lines);
  dot->excludes(lines);
  options->tensorflow.add_reading(*command);
  command->footer(
      "Examples:\n"
      "  ebb show examples/resnet.ebb\n"
      "  ebb show saved_model.pb --tags serve\n"
      "  ebb show examples/mlp.ebb --json | jq .peak_bytes\n"
      "  ebb show examples/tiny.ebb --dot | dot -Tsvg > tiny.svg");
  return {command, [options] { return show(*options); }};
}

}  // namespace ebb::tool
