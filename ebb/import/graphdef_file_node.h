// The line of a graph from TensorFlow that keeps the fields of the file behind its last node
// (graphdef_notes.h). It stands among the nodes so that texts keep it, and is none: where nodes are
// counted for people, it is left out.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ebb/graph/graph.h"
#include "ebb/import/graphdef_notes.h"

namespace ebb {

inline bool is_file_node(const Graph& graph, NodeId node) { return graph.op(node) == kFileOp; }

// Nodes of the framework's, and those that rewriting added.
inline std::size_t counted_nodes(const Graph& graph) {
  std::size_t count = 0;
  for (const NodeId node : graph.nodes()) count += is_file_node(graph, node) ? 0 : 1;
  return count;
}

}  // namespace ebb
