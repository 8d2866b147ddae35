#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "ebb/base/file.h"
#include "ebb/import/graphdef_file_node.h"
#include "input.h"
#include "output_form.h"
#include "progress.h"

namespace ebb::tool {
namespace {

using Json = nlohmann::ordered_json;

struct ConvertOptions {
  std::string input;
  std::string output;
  std::string format;  // "ebb", "dot", "pb", "pbtxt", or empty: by the suffix of the output
  TensorFlowOptions tensorflow;
  bool json = false;
};

// Nothing where that of the input counts.
Result<std::optional<Form>> asked_form(const ConvertOptions& options) {
  if (!options.format.empty()) return form_called(options.format);
  if (options.output == "-") return std::nullopt;
  if (const auto form = form_of_suffix(options.output)) return form;
  return fail(ErrorKind::kUsage,
              fmt::format("cannot tell the format of '{}' by its suffix; use .ebb, .dot, .pb or "
                          ".pbtxt, or --to",
                          printable(options.output)));
}

Result<int> write(const ConvertOptions& options, Form form, const std::string& text,
                  const Json& about) {
  if (auto written = write_file(options.output, text); !written) return fail(written.error());
  if (!options.json) return 0;
  Json report{{"output", options.output}, {"format", to_text(form)}};
  report.update(about);
  report["bytes"] = text.size();
  const std::string dumped = report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return write_file("-", dumped).map([] { return 0; });
}

// A file of TensorFlow's in its other form, whatever it holds.
Result<int> convert_file(const ConvertOptions& options, std::string content,
                         std::optional<Form> asked) {
  if (auto ok = options.tensorflow.check_not_needed(); !ok) return fail(ok.error());
  const auto file = read_tensorflow_file(std::move(content));
  if (!file) return fail(in_file(file.error(), options.input));
  const Form form = asked.value_or(file->is_text ? Form::kPbtxt : Form::kPb);
  const auto written = in_form(form, *file);
  if (!written) return fail(in_file(written.error(), options.input));
  return write(options, form, *written, {{"message", to_text(file->kind)}});
}

Result<int> convert_graph(const ConvertOptions& options, std::string content,
                          std::optional<Form> asked) {
  const auto input = read_valid_input(options.input, std::move(content), options.tensorflow);
  if (!input) return fail(input.error());
  const Form form = asked.value_or(form_of(*input));
  if (!is_tensorflow(form)) {
    const auto ok =
        options.tensorflow.check_not_writing(form == Form::kDot ? "a drawing" : "an .ebb text");
    if (!ok) return fail(ok.error());
  }
  const Progress progress("writing");
  const auto written = in_form(form, *input, input->graph(), options.tensorflow);
  if (!written) return fail(written.error());
  Json about{{"nodes", counted_nodes(input->graph())}};
  if (is_tensorflow(form)) about["message"] = to_text(TensorFlowKind::kGraphDef);
  return write(options, form, *written, about);
}

Result<int> convert(const ConvertOptions& options) {
  if (options.json && options.output == "-") {
    return fail(ErrorKind::kUsage, "--json and the graph both want standard output; name a file");
  }
  if (Status ok = check_is_no_state(options.output); !ok) return fail(ok.error());
  const auto form = asked_form(options);
  if (!form) return fail(form.error());
  auto content = read_graph_file(options.input);
  if (!content) return fail(content.error());
  const bool only_changes_form =
      (!*form || is_tensorflow(**form)) && is_tensorflow_file(options.input, *content);
  return only_changes_form ? convert_file(options, *std::move(content), *form)
                           : convert_graph(options, *std::move(content), *form);
}

}  // namespace

Command add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert",
      "Write a graph in another form: canonical .ebb text, Graphviz, TensorFlow's files");
  command->add_option("IN", options->input, kInputHelp)->required();
  command
      ->add_option(
          "OUT", options->output,
          "Where to write: .ebb, .dot, .pb or .pbtxt by its suffix; - is standard output,\n"
          "in the form of IN")
      ->required();
  command->add_option("--to", options->format, "The form, whatever the suffix: ebb, dot, pb, pbtxt")
      ->check(CLI::IsMember({"ebb", "dot", "pb", "pbtxt"}));
  command->add_flag("--json", options->json, "Print what was done as one JSON object");
  options->tensorflow.add_reading(*command);
  options->tensorflow.add_writing(*command);
  command->footer(
      "The file is written under a temporary name and renamed: it is whole or it is not there.\n\n"
      "TensorFlow's binary files and texts (GraphDef, MetaGraphDef, SavedModel) become each other\n"
      "whatever they hold. From there to .ebb the graph alone goes, and back as a GraphDef,\n"
      "byte for byte; other graphs cannot become files of TensorFlow's.\n\n"
      "Examples:\n"
      "  ebb convert mine.ebb canonical.ebb\n"
      "  ebb convert examples/tiny.ebb tiny.dot && dot -Tpng tiny.dot > tiny.png\n"
      "  ebb convert saved_model.pb saved_model.pbtxt\n"
      "  ebb convert graph.pb graph.ebb && ebb convert graph.ebb again.pb\n"
      "  ebb convert mine.ebb - --to dot | dot -Tsvg > mine.svg");
  return {command, [options] { return convert(*options); }};
}

}  // namespace ebb::tool
