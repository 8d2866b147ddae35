// The raw door for changing a graph. It takes what it is given: who goes through it answers for the
// invariants, ids in range included, and has the verifier check them. The parser, the builder and
// the rewriter are its users; everybody else wants one of those.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

class GraphEdit {
 public:
  explicit GraphEdit(Graph& graph) : graph_(graph) {}

  // Room for that many nodes and bytes of text, so that large graphs grow without copying.
  void reserve(std::size_t nodes, std::size_t text_bytes);

  SymbolId intern(std::string_view text) { return graph_.symbols_.intern(text); }
  // With hash_bytes(text) known, and perhaps prefetched before.
  SymbolId intern(std::string_view text, std::uint64_t hash) {
    return graph_.symbols_.intern(text, hash);
  }
  [[nodiscard]] TensorId find_tensor(std::string_view name, std::uint64_t hash) const {
    const Graph::Named* found = graph_.named(graph_.symbols_.find(name, hash));
    return found == nullptr ? TensorId() : found->tensor;
  }
  void prefetch(std::uint64_t hash) const { graph_.symbols_.prefetch(hash); }
  // Strides that are row-major are dropped, so that equal types have equal ids.
  TypeId intern(const TensorType& type);

  // Whether a node, tensor or scalar has this name.
  [[nodiscard]] bool is_taken(SymbolId name) const;

  ScopeId add_scope(ScopeKind kind, SymbolId name, ScopeId parent);

  // A new node at the end of the line order, without a name.
  NodeId add_node(NodeKind kind, std::string_view op = {});

  // Names a node that will have no result. A name that is taken already keeps its first meaning.
  void set_label(NodeId node, SymbolId name);
  // Results of one node are added in a row, before those of any other node. The first names it.
  TensorId add_result(NodeId node, SymbolId name, TypeId type);
  // A result in the bytes of `of`, `offset` bytes from the start of the storage: the next version
  // when the node updates that storage, a view of the operand's version otherwise. The operands
  // must have been set.
  TensorId add_shared_result(NodeId node, SymbolId name, TypeId type, TensorId of, Bytes offset);
  ScalarId add_scalar_result(NodeId node, SymbolId name, DType dtype);
  // The results of a node from the given one on, which is not its first, become those of another
  // node that has none. Ids and names stay; the first names its new maker.
  void hand_over_results(NodeId from, std::size_t first, NodeId to);

  void set_operands(NodeId node, std::span<const Operand> operands);
  void set_operand(NodeId node, std::size_t index, TensorId tensor);
  void set_controls(NodeId node, std::span<const NodeId> controls);
  void add_control(NodeId node, NodeId control);
  void add_attribute(NodeId node, SymbolId key, bool is_list, std::span<const Value> items);
  // Of an attribute that the node has.
  void set_attribute(NodeId node, std::string_view key, std::span<const Value> items);
  void set_scalar_arguments(NodeId node, std::span<const Value> arguments);
  void set_device(NodeId node, std::string_view device) { record(node).device = intern(device); }
  void set_effect(NodeId node, Effect effect) { record(node).effect = effect; }
  void set_workspace(NodeId node, Bytes bytes) { record(node).workspace = bytes; }
  void set_takes(NodeId node, Duration takes) { record(node).takes = takes; }
  void set_scope(NodeId node, ScopeId scope) { record(node).scope = scope; }
  void set_clone_of(NodeId node, NodeId original) { record(node).clone_of = original; }

  void set_type(TensorId tensor, TypeId type) { graph_.tensors_[tensor.index()].type = type; }
  void set_outputs(std::span<const TensorId> outputs);
  // Sets every tensor's version to what its maker's operands say (versions.h), after rewiring.
  void renumber_versions();
  // Must be a permutation of the nodes.
  void set_order(std::vector<NodeId> order);

 private:
  Graph::Node& record(NodeId node) { return graph_.nodes_[node.index()]; }
  Graph::Named& meaning(SymbolId name);
  [[nodiscard]] std::uint32_t version_made_by(NodeId node, TensorId sharing);
  TensorId add_tensor(NodeId node, const Graph::Tensor& tensor);

  Graph& graph_;
  // For a node with many results in place: what it makes of each storage among its operands.
  struct VersionMade {
    std::uint32_t round = 0;  // of looking at a node's operands
    std::uint32_t version = 0;
  };
  std::vector<VersionMade> versions_made_;  // by storage
  NodeId versions_made_of_;
  std::uint32_t round_ = 0;
};

}  // namespace ebb
