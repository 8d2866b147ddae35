// Reading the graph a command works on: an .ebb text, or a file of TensorFlow's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/graph/parse.h"
#include "ebb/import/tensorflow_file.h"
#include "tensorflow_options.h"

namespace ebb::tool {

// Of --batch-size. CLI11 cuts a number to the largest that there is, so that has to be too large.
constexpr std::int64_t kLargestBatch = 1'000'000'000'000;

// Whether both names are of one file that is there. Standard input and output are none.
bool is_same_file(const std::string& a, const std::string& b);

// Beside a captured step lies its state, `step.safetensors`, which nothing but `ebb run -o` writes.
Status check_is_no_state(const std::string& output);

// For --help.
inline constexpr const char* kInputHelp =
    "The graph: .ebb, or .pb or .pbtxt of TensorFlow's; - is standard input";

// How messages call a file: its path, or what "-" stands for.
std::string shown_name(const std::string& path);

// The error with the file's name and the place in its message; bad input, whatever it was.
Error in_file(Error error, const std::string& path);

// Whether a file is one of TensorFlow's. Its suffix says so, .pb and .pbtxt, .ebb not; behind any
// other name the content does.
bool is_tensorflow_file(const std::string& path, std::string_view content);

// The bytes of a file that is to be a graph. One whose name says that it has a captured step's
// tensors is refused before it is read, which takes long.
[[nodiscard]] Result<std::string> read_graph_file(const std::string& path);

struct InputGraph {
  std::string path;
  ParsedGraph parsed;                        // nodes that come from no text are on line 0
  std::optional<TensorFlowFile> tensorflow;  // where the graph came from, if not from a text

  [[nodiscard]] const Graph& graph() const { return parsed.graph; }
  [[nodiscard]] TensorFlowOptions::Read read() const {
    return {.name = shown_name(path), .file = tensorflow ? &*tensorflow : nullptr};
  }
};

// The graph as it stands in the file. Errors name the file.
[[nodiscard]] Result<InputGraph> read_input(const std::string& path,
                                            const TensorFlowOptions& options);

// The only input of a command, verified: what breaks an invariant is bad input to every command but
// `verify`. Options for TensorFlow's files that it has no use for are wrong usage.
[[nodiscard]] Result<InputGraph> read_valid_input(const std::string& path,
                                                  const TensorFlowOptions& options);
// The same of a file that was read.
[[nodiscard]] Result<InputGraph> read_valid_input(const std::string& path, std::string content,
                                                  const TensorFlowOptions& options);

// The graph of an .ebb text, verified, for programs that have no use for TensorFlow's files.
[[nodiscard]] Result<Graph> read_graph(const std::string& path);

}  // namespace ebb::tool
