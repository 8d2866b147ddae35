// V07 to V11: views, updates and the bytes behind them.
#include "ebb/graph/print.h"
#include "ebb/graph/verify_checks.h"

namespace ebb {
namespace {

// The first operand of the node that lies in `storage` and is used as `access`.
TensorId operand_in(const Graph& graph, NodeId node, StorageId storage, Access access) {
  for (const Operand& operand : graph.operands(node)) {
    if (operand.tensor.valid() && operand.access == access &&
        graph.storage(operand.tensor) == storage) {
      return operand.tensor;
    }
  }
  return {};
}

bool is_root(const Graph& graph, TensorId tensor) {
  return graph.root(graph.storage(tensor)) == tensor;
}

}  // namespace

void check_shared_bytes_come_from_an_operand(const Graph& graph, Findings& findings) {
  for (const TensorId tensor : graph.tensors()) {
    if (is_root(graph, tensor)) continue;
    const NodeId node = graph.producer(tensor);
    const StorageId storage = graph.storage(tensor);
    const TensorId root = graph.root(storage);
    if (graph.is_op(node)) {
      if (!operand_in(graph, node, storage, Access::kRead).valid() &&
          !operand_in(graph, node, storage, Access::kUpdate).valid()) {
        findings.add(node, "%{} shares the bytes of %{}, but '{}' has no operand in them",
                     graph.name(tensor), graph.name(root), graph.name(node));
      }
    } else if (graph.kind(node) != graph.kind(storage)) {
      findings.add(node, "%{} shares the bytes of %{}, but they are not of one kind: '{}' and '{}'",
                   graph.name(tensor), graph.name(root), print(graph, node),
                   print(graph, graph.producer(root)));
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
  for (const NodeId node : graph.nodes()) {
    for (const Operand& operand : graph.operands(node)) {
      if (operand.access != Access::kUpdate) continue;
      if (!operand.tensor.valid()) {
        findings.add(node, "'{}' updates an absent operand", graph.name(node));
        continue;
      }
      bool makes_next = false;
      for (const TensorId result : graph.results(node)) {
        makes_next = makes_next || graph.storage(result) == graph.storage(operand.tensor);
      }
      if (!makes_next) {
        findings.add(node,
                     "'{}' updates %{}, but no result of it is the next version; add one like "
                     "'%{}.1: {} ~ %{}'",
                     graph.name(node), graph.name(operand.tensor), graph.name(operand.tensor),
                     to_text(graph.type(operand.tensor)), graph.name(operand.tensor));
      }
    }
  }
}

void check_updates_keep_the_type(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    for (const TensorId result : graph.results(node)) {
      if (is_root(graph, result)) continue;
      const TensorId updated = operand_in(graph, node, graph.storage(result), Access::kUpdate);
      if (!updated.valid() || graph.type_id(updated) == graph.type_id(result)) continue;
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
