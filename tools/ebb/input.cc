#include "input.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ebb/base/file.h"
#include "ebb/graph/verify.h"
#include "ebb/import/graphdef.h"
#include "progress.h"

namespace ebb::tool {

bool is_same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == "-" || b == "-") return false;
  std::error_code none;
  return std::filesystem::equivalent(a, b, none);
}

Status check_is_no_state(const std::string& output) {
  if (std::filesystem::path(output).extension() != ".safetensors") return {};
  return fail(ErrorKind::kUsage,
              fmt::format("'{}' is called as the state of a step is, which would be lost; name "
                          "another file",
                          printable(output)));
}

namespace {

// `graph NAME {`, behind blanks and comments.
bool begins_like_ebb(std::string_view content) {
  constexpr std::string_view kBlanks = " \t\r\n";
  constexpr std::string_view kGraph = "graph";
  for (;;) {
    content.remove_prefix(std::min(content.find_first_not_of(kBlanks), content.size()));
    if (!content.starts_with('#')) break;
    content.remove_prefix(std::min(content.find('\n'), content.size()));
  }
  if (!content.starts_with(kGraph)) return false;
  content.remove_prefix(kGraph.size());
  return !content.empty() && kBlanks.find(content.front()) != std::string_view::npos;
}

bool is_binary(std::string_view content) {
  constexpr std::size_t kLookedAt = 4096;
  return std::ranges::any_of(content.substr(0, kLookedAt), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && (c < '\t' || c > '\r');
  });
}

Result<InputGraph> read_tensorflow(const std::string& path, std::string content,
                                   const TensorFlowOptions& options) {
  auto file = read_tensorflow_file(std::move(content), options.file());
  if (!file) return fail(in_file(file.error(), path));
  auto graph = import_graphdef(file->graphdef(), options.reading());
  if (!graph) return fail(in_file(graph.error(), path));
  std::vector<int> no_lines(graph->node_count());
  return InputGraph{.path = path,
                    .parsed = {.graph = *std::move(graph), .lines = std::move(no_lines)},
                    .tensorflow = *std::move(file)};
}

Result<InputGraph> read_content(const std::string& path, std::string content,
                                const TensorFlowOptions& options) {
  if (auto ok = options.check(); !ok) return fail(ok.error());
  if (is_tensorflow_file(path, content)) return read_tensorflow(path, std::move(content), options);
  auto parsed = parse(content);
  if (!parsed) return fail(in_file(parsed.error(), path));
  return InputGraph{.path = path, .parsed = *std::move(parsed), .tensorflow = {}};
}

}  // namespace

std::string shown_name(const std::string& path) {
  return path == "-" ? "standard input" : printable(path);
}

Error in_file(Error error, const std::string& path) {
  error.kind = ErrorKind::kBadInput;
  error.message = error.render(shown_name(path));
  error.code.clear();
  error.place = {};
  return error;
}

bool is_tensorflow_file(const std::string& path, std::string_view content) {
  if (path.ends_with(".ebb")) return false;
  if (path.ends_with(".pb") || path.ends_with(".pbtxt")) return true;
  return !begins_like_ebb(content) && (is_binary(content) || is_textproto(content));
}

Result<std::string> read_graph_file(const std::string& path) {
  constexpr std::string_view kState = ".safetensors";
  if (path.ends_with(kState)) {
    const std::string graph = path.substr(0, path.size() - kState.size()) + ".ebb";
    return fail(ErrorKind::kBadInput,
                fmt::format("{} has the tensors of a step and not its graph; give {}, which is "
                            "written beside it",
                            shown_name(path), shown_name(graph)));
  }
  return read_file(path);
}

Result<InputGraph> read_input(const std::string& path, const TensorFlowOptions& options) {
  const Progress progress("reading");
  auto content = read_graph_file(path);
  if (!content) return fail(content.error());
  return read_content(path, *std::move(content), options);
}

Result<InputGraph> read_valid_input(const std::string& path, std::string content,
                                    const TensorFlowOptions& options) {
  auto input = read_content(path, std::move(content), options);
  if (!input) return fail(input.error());
  if (auto ok = options.check_read({input->read()}); !ok) return fail(ok.error());
  if (input->tensorflow) return input;  // verified as it was read
  if (const auto found = find_violations(input->graph(), 1); !found.empty()) {
    return fail(in_file(as_error(found.front(), input->parsed), path));
  }
  return input;
}

Result<InputGraph> read_valid_input(const std::string& path, const TensorFlowOptions& options) {
  const Progress progress("reading");
  auto content = read_graph_file(path);
  if (!content) return fail(content.error());
  return read_valid_input(path, *std::move(content), options);
}

Result<Graph> read_graph(const std::string& path) {
  auto input = read_valid_input(path, {});
  if (!input) return fail(input.error());
  if (const auto& file = input->tensorflow) {
    return fail(ErrorKind::kBadInput,
                fmt::format("{}: this is a {}; what runs here are .ebb texts of steps that were "
                            "captured from PyTorch",
                            shown_name(path), file->describe()));
  }
  return std::move(input->parsed.graph);
}

}  // namespace ebb::tool
