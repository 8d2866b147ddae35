// V07 to V11: views, updates and the bytes behind them.
#include "ebb/graph/print.h"
#include "ebb/graph/verify_checks.h"

namespace ebb {
namespace {

// For one node at a time: the operand in a storage, found without walking all operands again. An
// update goes before a read. (Optimizers update thousands of tensors in one operation.)
class OperandByStorage {
 public:
  explicit OperandByStorage(const Graph& graph) : graph_(graph), entries_(graph.storage_count()) {}

  void look_at(NodeId node) {
    node_ = node;
    for (const Operand& operand : graph_.operands(node)) {
      if (!operand.tensor.valid()) continue;
      Entry& entry = entries_[graph_.storage(operand.tensor).index()];
      if (entry.node != node || operand.access == Access::kUpdate) entry = {node, operand};
    }
  }
  // nullptr when no operand lies in the storage.
  [[nodiscard]] const Operand* find(StorageId storage) const {
    const Entry& entry = entries_[storage.index()];
    return entry.node == node_ ? &entry.operand : nullptr;
  }

 private:
  struct Entry {
    NodeId node;
    Operand operand;
  };
  const Graph& graph_;
  std::vector<Entry> entries_;
  NodeId node_;
};

bool is_root(const Graph& graph, TensorId tensor) {
  return graph.root(graph.storage(tensor)) == tensor;
}

}  // namespace

void check_shared_bytes_come_from_an_operand(const Graph& graph, Findings& findings) {
  OperandByStorage operands(graph);
  for (const NodeId node : graph.nodes()) {
    operands.look_at(node);
    for (const TensorId tensor : graph.results(node)) {
      if (is_root(graph, tensor)) continue;
      const StorageId storage = graph.storage(tensor);
      const TensorId root = graph.root(storage);
      if (graph.is_op(node)) {
        if (operands.find(storage) != nullptr) continue;
        findings.add(node, "%{} shares the bytes of %{}, but '{}' has no operand in them",
                     graph.name(tensor), graph.name(root), graph.name(node));
      } else if (graph.kind(node) != graph.kind(storage)) {
        findings.add(node,
                     "%{} shares the bytes of %{}, but they are not of one kind: '{}' and '{}'",
                     graph.name(tensor), graph.name(root), print(graph, node),
                     print(graph, graph.producer(root)));
      }
    }
  }
}

void check_views_lie_inside_their_storage(const Graph& graph, Findings& findings) {
  for (const TensorId tensor : graph.tensors()) {
    if (is_root(graph, tensor)) continue;
    const StorageId storage = graph.storage(tensor);
    const TensorId root = graph.root(storage);
    const NodeId node = graph.producer(tensor);
    if (graph.type(tensor).residence != graph.residence(storage)) {
      findings.add(node, "%{} shares the bytes of %{}, but one is on the host and one is not",
                   graph.name(tensor), graph.name(root));
    }
    const auto size = graph.size(storage);
    const auto length = extent(graph.type(tensor));
    const std::int64_t offset = graph.offset(tensor).count;
    if (offset < 0 || (size && length && offset > size->count - length->count)) {
      findings.add(node, "%{} spans bytes {} to {} of %{}, which has {}", graph.name(tensor),
                   offset,
                   length ? fmt::format("{}", static_cast<std::uint64_t>(offset) +
                                                  static_cast<std::uint64_t>(length->count))
                          : "?",
                   graph.name(root), size ? fmt::format("{}", size->count) : "an unknown number");
    }
  }
}

void check_updates_make_the_next_version(const Graph& graph, Findings& findings) {
  std::vector<NodeId> last_maker(graph.storage_count());  // who last made a tensor in the storage
  for (const NodeId node : graph.nodes()) {
    for (const TensorId result : graph.results(node)) {
      last_maker[graph.storage(result).index()] = node;
    }
    for (const Operand& operand : graph.operands(node)) {
      if (operand.access != Access::kUpdate) continue;
      if (!operand.tensor.valid()) {
        findings.add(node, "'{}' updates an absent operand", graph.name(node));
      } else if (last_maker[graph.storage(operand.tensor).index()] != node) {
        const std::string_view name = graph.name(operand.tensor);
        findings.add(node,
                     "'{}' updates %{}, but no result of it is the next version; add one like "
                     "'%{}.1: {} ~ %{}'",
                     graph.name(node), name, name, to_text(graph.type(operand.tensor)), name);
      }
    }
  }
}

void check_updates_keep_the_type(const Graph& graph, Findings& findings) {
  OperandByStorage operands(graph);
  for (const NodeId node : graph.nodes()) {
    operands.look_at(node);
    for (const TensorId result : graph.results(node)) {
      if (is_root(graph, result)) continue;
      const Operand* operand = operands.find(graph.storage(result));
      if (operand == nullptr || operand->access != Access::kUpdate) continue;
      const TensorId updated = operand->tensor;
      if (graph.type_id(updated) == graph.type_id(result)) continue;
      findings.add(node, "'{}' updates %{}: {}, but makes %{}: {}; an update keeps the type",
                   graph.name(node), graph.name(updated), to_text(graph.type(updated)),
                   graph.name(result), to_text(graph.type(result)));
    }
  }
}

void check_constants_are_never_updated(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    for (const Operand& operand : graph.operands(node)) {
      if (operand.access != Access::kUpdate) continue;
      const StorageId storage = graph.storage(operand.tensor);
      if (graph.kind(storage) != NodeKind::kConst) continue;
      findings.add(node, "'{}' updates the constant %{}; make it a param", graph.name(node),
                   graph.name(graph.root(storage)));
    }
  }
}

}  // namespace ebb
