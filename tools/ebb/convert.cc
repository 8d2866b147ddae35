#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "ebb/base/file.h"
#include "ebb/graph/dot.h"
#include "ebb/graph/print.h"
#include "input.h"
#include "progress.h"

namespace ebb::tool {
namespace {

struct ConvertOptions {
  std::string input;
  std::string output;
  std::string format;  // "ebb", "dot", or empty: by the suffix of the output
  bool json = false;
};

Result<std::string> output_format(const ConvertOptions& options) {
  if (!options.format.empty()) return options.format;
  if (options.output == "-") return std::string("ebb");
  const std::string suffix = std::filesystem::path(options.output).extension().string();
  if (suffix == ".ebb") return std::string("ebb");
  if (suffix == ".dot" || suffix == ".gv") return std::string("dot");
  return fail(ErrorKind::kUsage,
              fmt::format("cannot tell the format of '{}' by its suffix; use .ebb or .dot, or --to",
                          options.output));
}

Result<int> convert(const ConvertOptions& options) {
  if (options.json && options.output == "-") {
    return fail(ErrorKind::kUsage, "--json and the graph both want standard output; name a file");
  }
  const auto format = output_format(options);
  if (!format) return fail(format.error());
  const auto graph = read_graph(options.input);
  if (!graph) return fail(graph.error());
  const Progress progress("writing");
  const std::string text = *format == "dot" ? to_dot(*graph) : print(*graph);
  if (auto written = write_file(options.output, text); !written) return fail(written.error());
  if (options.json) {
    const nlohmann::ordered_json report{{"output", options.output},
                                        {"format", *format},
                                        {"nodes", graph->node_count()},
                                        {"bytes", text.size()}};
    if (auto written = write_file(
            "-",
            report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
        !written) {
      return fail(written.error());
    }
  }
  return 0;
}

}  // namespace

Command add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "Write a graph in another form: canonical .ebb text or Graphviz");
  command->add_option("IN", options->input, "The graph, an .ebb text; - is standard input")
      ->required();
  command
      ->add_option("OUT", options->output,
                   "Where to write: .ebb or .dot by its suffix; - is standard output")
      ->required();
  command->add_option("--to", options->format, "The form, whatever the suffix: ebb or dot")
      ->check(CLI::IsMember({"ebb", "dot"}));
  command->add_flag("--json", options->json, "Print what was done as one JSON object");
  command->footer(
      "The file is written under a temporary name and renamed: it is whole or it is not there.\n\n"
      "Examples:\n"
      "  ebb convert mine.ebb canonical.ebb\n"
      "  ebb convert examples/tiny.ebb tiny.dot && dot -Tpng tiny.dot > tiny.png\n"
      "  ebb convert mine.ebb - --to dot | dot -Tsvg > mine.svg");
  return {command, [options] { return convert(*options); }};
}

}  // namespace ebb::tool
