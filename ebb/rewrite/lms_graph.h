// The graph as the driver sees it: phases of training, and who reads what through views.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

enum class LmsPhase : std::uint8_t {
  kForward,
  kBackward,
  kOther,  // updating variables and what comes after, or works on gradients elsewhere
};

// By node. Backward: operations under the scopes (none given: under those that frameworks give to
// gradients) that neither update a variable nor wait for an operation under the scopes that does.
// Others that read what backward operations made, as an optimizer outside the scopes, are no
// forward operations either. Clones that backward operations read, or that wait for one, count as
// if they were under the scopes; transpositions of TensorFlow's layout optimizer that forward
// operations read do not, whatever their names. O(nodes + edges).
std::vector<LmsPhase> find_phases(const Graph& graph, std::span<const std::string> scopes);

// Whether the node is nothing but an edge into a variable: what the paper draws as an update.
bool assigns_variable(const Graph& graph, NodeId node);

// Edges from who makes some bytes to who reads them, through any number of views. Variables and
// constants have none. O(nodes + edges) to build.
class LmsEdges {
 public:
  explicit LmsEdges(const Graph& graph);

  // The operations that read the storage, in line order. Views are not among them.
  [[nodiscard]] std::span<const NodeId> readers(StorageId storage) const {
    const std::uint32_t begin = starts_[storage.index()];
    return std::span(readers_).subspan(begin, starts_[storage.index() + 1] - begin);
  }
  // The operations that read anything the node made, in line order: fills `out`.
  void find_successors(NodeId node, std::vector<NodeId>& out) const;

  // The place of a node in line order.
  [[nodiscard]] std::uint32_t position(NodeId node) const { return positions_[node.index()]; }

 private:
  const Graph& graph_;
  std::vector<std::uint32_t> positions_;
  std::vector<std::uint32_t> starts_;  // by storage, where its readers begin
  std::vector<NodeId> readers_;
};

}  // namespace ebb
