// Who must wait for whom: the one place that knows. Every test of safety asks here.
//
// A node waits for (before(node)):
//   read after write    the producers of the tensors and scalars it reads,
//   write after write   the producer of the version it updates,
//   write after read    everybody who reads the version it updates,
//   control             the nodes its `after` clause names;
// and a declaration in the bytes of another one waits for that.
// Which version of a storage a tensor is was settled when it was made, so the order of lines plays
// no part here. Building takes O(nodes + edges) time and memory. Frameworks' effects on resource
// handles are not ordered by this, only by control edges, as in those frameworks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

class Dependence {
 public:
  enum class Reason : std::uint8_t { kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead, kControl };
  struct Edge {
    NodeId node;  // the other end
    Reason reason = Reason::kReadAfterWrite;
  };

  explicit Dependence(const Graph& graph);

  // Whom `node` waits for. A node may stand there twice, for two reasons.
  [[nodiscard]] std::span<const Edge> before(NodeId node) const { return slice(before_, node); }
  // Who waits for `node`.
  [[nodiscard]] std::span<const Edge> after(NodeId node) const { return slice(after_, node); }
  [[nodiscard]] std::size_t node_count() const { return before_.starts.size() - 1; }

 private:
  // Edges by node: those of node i are edges[starts[i]] ... edges[starts[i+1]-1].
  struct Lists {
    std::vector<std::uint32_t> starts;
    std::vector<Edge> edges;
  };
  static std::span<const Edge> slice(const Lists& lists, NodeId node) {
    const std::uint32_t begin = lists.starts[node.index()];
    return std::span(lists.edges).subspan(begin, lists.starts[node.index() + 1] - begin);
  }

  Lists before_;
  Lists after_;
};

// Whether its order among others of its kind is in the lines: what is random, or has effects. Not
// so in TensorFlow, where who is to come first is waited for.
bool is_ordered_by_lines(const Graph& graph, NodeId node);

// One cycle of the dependence order, each node waiting for the next and the last for the first;
// empty when there is none.
std::vector<NodeId> find_cycle(const Dependence& dependence);
// The same, over any edges: `before[i]` lists whom node i waits for.
std::vector<NodeId> find_cycle(const std::vector<std::vector<NodeId>>& before);

// "'a' waits for 'b', which waits for 'a'".
std::string describe_cycle(const Graph& graph, std::span<const NodeId> cycle);

// For each storage and version, the node that updates it.
class Updates {
 public:
  explicit Updates(const Graph& graph);

  // The node that overwrites this tensor's version; not valid when none does. Where several do,
  // which the verifier refuses, the first in line order.
  [[nodiscard]] NodeId updater(StorageId storage, std::uint32_t version) const;
  [[nodiscard]] bool is_updated(StorageId storage) const { return is_updated_[storage.index()]; }
  // Takes in a node that was added since, and stands below all that update the same bytes.
  void add(const Graph& graph, NodeId node);

 private:
  struct Update {
    StorageId storage;
    std::uint32_t version = 0;
    NodeId node;
  };
  std::vector<bool> is_updated_;
  std::vector<Update> updates_;
  HashIndex index_;
};

}  // namespace ebb
