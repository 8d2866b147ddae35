#include "ebb/report/summary.h"

#include <algorithm>
#include <set>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/verify.h"
#include "ebb/import/graphdef_file_node.h"
#include "ebb/order/gamma.h"

namespace ebb {
namespace {

bool is_counted_operation(const Graph& graph, NodeId node) {
  return graph.is_op(node) && !is_file_node(graph, node);
}

Summary::Counts count(const Graph& graph) {
  Summary::Counts counts;
  counts.nodes = counted_nodes(graph);
  counts.tensors = graph.tensor_count();
  counts.storages = graph.storage_count();
  for (const NodeId node : graph.nodes()) {
    counts.operations += is_counted_operation(graph, node) ? 1 : 0;
    counts.inputs += graph.kind(node) == NodeKind::kInput ? 1 : 0;
    counts.parameters += graph.kind(node) == NodeKind::kParam ? 1 : 0;
    counts.constants += graph.kind(node) == NodeKind::kConst ? 1 : 0;
    counts.scalars += graph.kind(node) == NodeKind::kScalar ? 1 : 0;
    counts.random += graph.effect(node) == Effect::kRandom ? 1 : 0;
    counts.effects += graph.effect(node) == Effect::kEffect ? 1 : 0;
    counts.clones += graph.clone_of(node).valid() ? 1 : 0;
    counts.swap_outs += graph.op(node) == kSwapOut ? 1 : 0;
    counts.swap_ins += graph.op(node) == kSwapIn ? 1 : 0;
    counts.control_edges += graph.controls(node).size();
    for (const Operand& operand : graph.operands(node)) {
      counts.updates += operand.access == Access::kUpdate ? 1 : 0;
    }
  }
  return counts;
}

// Long-lived and large: what a rewrite would move first.
std::vector<Summary::LongLived> find_long_lived(const Graph& graph, const Gamma& gamma) {
  constexpr std::size_t kShown = 5;
  const std::vector<std::uint32_t> lifetime = lifetimes(graph, gamma);
  std::vector<Summary::LongLived> all;
  for (const TensorId tensor : graph.tensors()) {
    const auto size = extent(graph.type(tensor));
    // Variables live from step to step anyway, views are their storage's, and what is read at once
    // need not be moved.
    const StorageId storage = graph.storage(tensor);
    const bool moves = graph.origin(storage) == NodeKind::kOp && graph.root(storage) == tensor;
    if (!moves || !size || lifetime[tensor.index()] < 2) continue;
    all.push_back({tensor, lifetime[tensor.index()], *size});
  }
  const auto weight = [](const Summary::LongLived& item) {
    return static_cast<double>(item.size.count) * item.lifetime;
  };
  const std::size_t shown = std::min(kShown, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(shown), all.end(),
                    [&](const Summary::LongLived& a, const Summary::LongLived& b) {
                      if (weight(a) != weight(b)) return weight(a) > weight(b);
                      return a.tensor < b.tensor;
                    });
  all.resize(shown);
  return all;
}

Summary::Shares shares(const Graph& graph, const Summary& summary) {
  Summary::Shares shares;
  for (const auto& [storage, size] : summary.residents_at_peak) {
    switch (graph.origin(storage)) {
      case NodeKind::kParam:
        shares.parameters += size;
        break;
      case NodeKind::kConst:
        shares.constants += size;
        break;
      case NodeKind::kInput:
        shares.inputs += size;
        break;
      default:
        shares.intermediates += size;
    }
  }
  if (!graph.order().empty()) {
    const NodeId peak_node = graph.order()[summary.memory.peak_position];
    if (!graph.runs_on_host(peak_node)) shares.workspace = graph.workspace(peak_node);
  }
  return shares;
}

}  // namespace

std::string_view role(const Graph& graph, StorageId storage) {
  switch (graph.origin(storage)) {
    case NodeKind::kParam:
      return "parameter";
    case NodeKind::kConst:
      return "constant";
    case NodeKind::kInput:
      return "input";
    default:
      return "intermediate";
  }
}

Summary summarize(const Graph& graph) {
  Summary summary;
  summary.counts = count(graph);

  const Gamma gamma(graph);
  summary.highest_gamma = gamma.highest();
  std::vector<std::size_t> width(gamma.highest() + 1);
  for (const NodeId node : graph.nodes()) {
    if (is_counted_operation(graph, node)) ++width[gamma[node]];
  }
  const auto widest = std::max_element(width.begin(), width.end());
  summary.widest_level = static_cast<std::uint32_t>(widest - width.begin());
  summary.widest_count = *widest;
  summary.long_lived = find_long_lived(graph, gamma);

  const std::vector<Life> lives = find_lives(graph);
  summary.memory = memory_curve(graph, lives);
  summary.residents_at_peak = residents_at(graph, lives, summary.memory.peak_position);
  summary.at_peak = shares(graph, summary);
  summary.floor = find_floor(graph);
  std::set<std::string_view> devices;
  for (const NodeId node : graph.nodes()) {
    const bool is_counted = is_counted_operation(graph, node);
    if (is_counted && !graph.runs_on_host(node)) devices.insert(graph.device(node));
  }
  summary.devices = devices.size();
  summary.implicit_copies = find_implicit_copies(graph).size();
  for (const NodeId node : graph.nodes()) {
    if (const auto takes = graph.takes(node)) {
      summary.known_time += *takes;
      ++summary.operations_timed;
    }
  }
  return summary;
}

}  // namespace ebb
