// A file of TensorFlow's, and where in it the graph is.
//
//   Result<TensorFlowFile> file = read_tensorflow_file(bytes);
//   Result<std::string> changed = with_graphdef(*file, rewritten);
//
// (The second function is in ebb/export/tensorflow_file.h.)
//
// Read are GraphDef (.pb, as tf.io.write_graph writes it), MetaGraphDef (.meta) and SavedModel
// (saved_model.pb), binary or text. Which one it is shows in the bytes, not in the file's name.
// The graph's own bytes are not looked into beyond what it takes to know them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/import/tensorflow_schema.h"

namespace ebb {

// A run of a file's bytes.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t size = 0;
};

struct TensorFlowFile {
  TensorFlowKind kind = TensorFlowKind::kGraphDef;
  bool is_text = false;  // then `bytes` are its translation (ebb/import/textproto.h)
  std::string bytes;
  ByteRange graph;  // the GraphDef in `bytes`
  // Where the lengths of what is around the GraphDef stand, and of itself; outermost first.
  std::vector<ByteRange> lengths;
  // A SavedModel has several graphs, each with its set of tags. Ours is one of them.
  std::size_t meta_graph = 0;
  std::size_t meta_graph_count = 0;
  std::vector<std::string> tags;

  [[nodiscard]] std::string_view graphdef() const {
    return std::string_view(bytes).substr(graph.begin, graph.size);
  }
  // "binary SavedModel, graph 1 of 2, tags: serve"
  [[nodiscard]] std::string describe() const;
};

struct TensorFlowFileOptions {
  // The graph of a SavedModel that has exactly these tags; without, the first that has a graph.
  std::optional<std::vector<std::string>> tags;
};

// Whether the content reads like protobuf's text format rather than anything else.
[[nodiscard]] bool is_textproto(std::string_view content);

// Errors (kBadInput): no TensorFlow file, one that is cut off, one without a graph, one of more
// than protobuf's 2 GiB. Texts: as graphdef_from_text.
[[nodiscard]] Result<TensorFlowFile> read_tensorflow_file(
    std::string content, const TensorFlowFileOptions& options = {});

}  // namespace ebb
