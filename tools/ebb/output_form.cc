#include "output_form.h"

#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "ebb/export/graphdef.h"
#include "ebb/export/tensorflow_file.h"
#include "ebb/export/textproto.h"
#include "ebb/graph/dot.h"
#include "ebb/graph/print.h"

namespace ebb::tool {
namespace {

constexpr std::array kNames = {std::pair(std::string_view("ebb"), Form::kEbb),
                               std::pair(std::string_view("dot"), Form::kDot),
                               std::pair(std::string_view("pb"), Form::kPb),
                               std::pair(std::string_view("pbtxt"), Form::kPbtxt)};

Result<std::string> as_graphdef(Form form, const Graph& graph, const GraphDefExport& options) {
  if (graph.node_count() == 0) {
    return fail(ErrorKind::kBadInput,
                "the graph is empty, and an empty file is none of TensorFlow's");
  }
  auto bytes = export_graphdef(graph, options);
  if (!bytes || form == Form::kPb) return bytes;
  return graphdef_to_text(*bytes, TensorFlowKind::kGraphDef);
}

Result<std::string> back_into(const TensorFlowFile& file, Form form, const Graph& graph,
                              const GraphDefExport& options) {
  auto bytes = export_graphdef(graph, options);
  if (!bytes) return bytes;
  TensorFlowFile written = file;
  written.is_text = form == Form::kPbtxt;
  return with_graphdef(written, *bytes);
}

}  // namespace

std::string_view to_text(Form form) {
  for (const auto& [name, each] : kNames) {
    if (each == form) return name;
  }
  return "";
}

std::optional<Form> form_called(std::string_view name) {
  for (const auto& [each, form] : kNames) {
    if (each == name) return form;
  }
  return std::nullopt;
}

std::optional<Form> form_of_suffix(const std::string& path) {
  const std::string suffix = std::filesystem::path(path).extension().string();
  if (suffix == ".gv") return Form::kDot;
  return suffix.empty() ? std::nullopt : form_called(std::string_view(suffix).substr(1));
}

Form form_of(const InputGraph& input) {
  if (!input.tensorflow) return Form::kEbb;
  return input.tensorflow->is_text ? Form::kPbtxt : Form::kPb;
}

Result<std::string> in_form(Form form, const InputGraph& input, const Graph& graph,
                            const TensorFlowOptions& options) {
  if (form == Form::kEbb) return print(graph);
  if (form == Form::kDot) return to_dot(graph);
  auto written = input.tensorflow ? back_into(*input.tensorflow, form, graph, options.writing())
                                  : as_graphdef(form, graph, options.writing());
  if (!written) return fail(in_file(written.error(), input.path));
  return written;
}

Result<std::string> in_form(Form form, const TensorFlowFile& file) {
  if (form == Form::kPbtxt) return to_text(file);
  return file.bytes;
}

}  // namespace ebb::tool
