#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "ebb/base/file.h"
#include "ebb/export/tensorflow_file.h"
#include "ebb/graph/dot.h"
#include "ebb/graph/print.h"
#include "input.h"
#include "progress.h"

namespace ebb::tool {
namespace {

struct ConvertOptions {
  std::string input;
  std::string output;
  std::string format;  // "ebb", "dot", "pb", "pbtxt", or empty: by the suffix of the output
  bool json = false;
};

Result<std::string> output_format(const ConvertOptions& options) {
  if (!options.format.empty()) return options.format;
  if (options.output == "-") return std::string("ebb");
  const std::string suffix = std::filesystem::path(options.output).extension().string();
  if (suffix == ".ebb") return std::string("ebb");
  if (suffix == ".dot" || suffix == ".gv") return std::string("dot");
  if (suffix == ".pb" || suffix == ".pbtxt") return suffix.substr(1);
  return fail(ErrorKind::kUsage,
              fmt::format("cannot tell the format of '{}' by its suffix; use .ebb, .dot, .pb or "
                          ".pbtxt, or --to",
                          options.output));
}

// A file of TensorFlow's in its other form, whatever it holds.
Result<int> convert_tensorflow(const ConvertOptions& options, const std::string& format) {
  auto content = read_file(options.input);
  if (!content) return fail(content.error());
  const auto file = read_tensorflow_file(*std::move(content));
  if (!file) return fail(in_file(file.error(), options.input));
  std::string written = file->bytes;
  if (format == "pbtxt") {
    auto text = to_text(*file);
    if (!text) return fail(in_file(text.error(), options.input));
    written = *std::move(text);
  }
  if (auto done = write_file(options.output, written); !done) return fail(done.error());
  if (options.json) {
    const nlohmann::ordered_json report{{"output", options.output},
                                        {"format", format},
                                        {"message", to_text(file->kind)},
                                        {"bytes", written.size()}};
    if (auto done = write_file(
            "-",
            report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
        !done) {
      return fail(done.error());
    }
  }
  return 0;
}

Result<int> convert(const ConvertOptions& options) {
  if (options.json && options.output == "-") {
    return fail(ErrorKind::kUsage, "--json and the graph both want standard output; name a file");
  }
  const auto format = output_format(options);
  if (!format) return fail(format.error());
  if (*format == "pb" || *format == "pbtxt") return convert_tensorflow(options, *format);
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
      "convert",
      "Write a graph in another form: canonical .ebb text, Graphviz, TensorFlow's files");
  command->add_option("IN", options->input, "The graph, an .ebb text; - is standard input")
      ->required();
  command
      ->add_option("OUT", options->output,
                   "Where to write: .ebb, .dot, .pb or .pbtxt by its suffix; - is standard output")
      ->required();
  command->add_option("--to", options->format, "The form, whatever the suffix: ebb, dot, pb, pbtxt")
      ->check(CLI::IsMember({"ebb", "dot", "pb", "pbtxt"}));
  command->add_flag("--json", options->json, "Print what was done as one JSON object");
  command->footer(
      "The file is written under a temporary name and renamed: it is whole or it is not there.\n\n"
      "TensorFlow's binary files and texts (GraphDef, MetaGraphDef, SavedModel) become each "
      "other.\n\n"
      "Examples:\n"
      "  ebb convert mine.ebb canonical.ebb\n"
      "  ebb convert examples/tiny.ebb tiny.dot && dot -Tpng tiny.dot > tiny.png\n"
      "  ebb convert saved_model.pb saved_model.pbtxt\n"
      "  ebb convert mine.ebb - --to dot | dot -Tsvg > mine.svg");
  return {command, [options] { return convert(*options); }};
}

}  // namespace ebb::tool
