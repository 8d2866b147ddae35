#include "ebb/graph/dependence.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ebb/base/check.h"

namespace ebb {
namespace {

std::uint64_t hash_version(StorageId storage, std::uint32_t version) {
  const std::uint64_t key = (static_cast<std::uint64_t>(storage.index()) << 32U) | version;
  return (key ^ (key >> 29U)) * 0x9E3779B97F4A7C15;
}

struct FullEdge {
  NodeId from;  // runs first
  NodeId to;    // waits
  Dependence::Reason reason;
};

std::vector<FullEdge> collect_edges(const Graph& graph) {
  using Reason = Dependence::Reason;
  const Updates updates(graph);
  std::vector<FullEdge> edges;
  edges.reserve(3 * graph.node_count());
  // To list each pair once.
  std::vector<NodeId> last_waiter(graph.node_count());
  std::vector<NodeId> last_reader(graph.node_count());
  for (const NodeId node : graph.nodes()) {
    const auto wait_for = [&](NodeId other, Reason reason) {
      if (last_waiter[other.index()] == node) return;
      last_waiter[other.index()] = node;
      edges.push_back({other, node, reason});
    };
    for (const Operand& operand : graph.operands(node)) {
      if (!operand.tensor.valid()) continue;
      const bool update = operand.access == Access::kUpdate;
      wait_for(graph.producer(operand.tensor),
               update ? Reason::kWriteAfterWrite : Reason::kReadAfterWrite);
      const StorageId storage = graph.storage(operand.tensor);
      if (!updates.is_updated(storage)) continue;
      const NodeId updater = updates.updater(storage, graph.version(operand.tensor));
      if (!updater.valid() || updater == node || last_reader[updater.index()] == node) continue;
      last_reader[updater.index()] = node;
      edges.push_back({node, updater, Reason::kWriteAfterRead});
    }
    graph.for_each_scalar_read(
        node, [&](ScalarId scalar) { wait_for(graph.producer(scalar), Reason::kReadAfterWrite); });
    for (const NodeId control : graph.controls(node)) wait_for(control, Reason::kControl);
    if (graph.is_op(node)) continue;
    for (const TensorId result : graph.results(node)) {
      const TensorId root = graph.root(graph.storage(result));
      if (root != result) wait_for(graph.producer(root), Reason::kReadAfterWrite);
    }
  }
  EBB_CHECK(edges.size() < 0xFFFFFFFF, "a graph has more than 2^32-2 dependences");
  return edges;
}

}  // namespace

Updates::Updates(const Graph& graph) : is_updated_(graph.storage_count()) {
  for (const NodeId node : graph.order()) add(graph, node);
}

void Updates::add(const Graph& graph, NodeId node) {
  for (const Operand& operand : graph.operands(node)) {
    if (operand.access != Access::kUpdate || !operand.tensor.valid()) continue;
    const StorageId storage = graph.storage(operand.tensor);
    const std::uint32_t version = graph.version(operand.tensor);
    if (storage.index() >= is_updated_.size()) is_updated_.resize(graph.storage_count());
    is_updated_[storage.index()] = true;
    if (updater(storage, version).valid()) continue;
    index_.insert(hash_version(storage, version), static_cast<std::uint32_t>(updates_.size()));
    updates_.push_back({storage, version, node});
  }
}

NodeId Updates::updater(StorageId storage, std::uint32_t version) const {
  // Most storages never are, and those added since the index was made are not in it.
  if (storage.index() >= is_updated_.size() || !is_updated(storage)) return {};
  const std::uint32_t found = index_.find(hash_version(storage, version), [&](std::uint32_t i) {
    return updates_[i].storage == storage && updates_[i].version == version;
  });
  return found == HashIndex::kNone ? NodeId() : updates_[found].node;
}

Dependence::Dependence(const Graph& graph) {
  const std::vector<FullEdge> edges = collect_edges(graph);
  const auto group = [&](auto key, auto other) {
    Lists lists;
    lists.starts.assign(graph.node_count() + 1, 0);
    lists.edges.resize(edges.size());
    for (const FullEdge& edge : edges) ++lists.starts[key(edge).index() + 1];
    std::partial_sum(lists.starts.begin(), lists.starts.end(), lists.starts.begin());
    std::vector<std::uint32_t> next(lists.starts.begin(), lists.starts.end() - 1);
    for (const FullEdge& edge : edges) {
      lists.edges[next[key(edge).index()]++] = Edge{other(edge), edge.reason};
    }
    return lists;
  };
  const auto from = [](const FullEdge& edge) { return edge.from; };
  const auto to = [](const FullEdge& edge) { return edge.to; };
  before_ = group(to, from);
  after_ = group(from, to);
}

// Kahn's algorithm, then a walk along predecessors that never became ready until one repeats.
std::vector<NodeId> find_cycle(const std::vector<std::vector<NodeId>>& before) {
  const auto count = static_cast<std::uint32_t>(before.size());
  std::vector<std::size_t> missing(count);
  std::vector<std::vector<std::uint32_t>> waiters(count);
  std::vector<std::uint32_t> ready;
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const NodeId other : before[i]) waiters[other.index()].push_back(i);
    missing[i] = before[i].size();
    if (missing[i] == 0) ready.push_back(i);
  }
  std::size_t done = 0;
  for (; !ready.empty(); ++done) {
    const std::uint32_t node = ready.back();
    ready.pop_back();
    for (const std::uint32_t waiter : waiters[node]) {
      if (--missing[waiter] == 0) ready.push_back(waiter);
    }
  }
  if (done == count) return {};

  const auto is_stuck = [&](NodeId node) { return missing[node.index()] != 0; };
  NodeId at(0);
  while (!is_stuck(at)) at = NodeId(at.index() + 1);
  std::vector<NodeId> walk;
  std::vector<bool> visited(count);
  while (!visited[at.index()]) {
    visited[at.index()] = true;
    walk.push_back(at);
    at = *std::find_if(before[at.index()].begin(), before[at.index()].end(), is_stuck);
  }
  walk.erase(walk.begin(), std::find(walk.begin(), walk.end(), at));
  return walk;
}

bool is_ordered_by_lines(const Graph& graph, NodeId node) {
  return graph.effect(node) != Effect::kPure && !graph.op(node).starts_with("tf::");
}

std::vector<NodeId> find_cycle(const Dependence& dependence) {
  std::vector<std::vector<NodeId>> before(dependence.node_count());
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    for (const Dependence::Edge& edge : dependence.before(NodeId(i))) {
      before[i].push_back(edge.node);
    }
  }
  return find_cycle(before);
}

std::string describe_cycle(const Graph& graph, std::span<const NodeId> cycle) {
  constexpr std::size_t kShown = 8;  // a cycle of hundreds is not read anyway
  std::string out = fmt::format("'{}'", graph.name(cycle[0]));
  const std::size_t shown = std::min(cycle.size(), kShown);
  for (std::size_t i = 1; i <= shown; ++i) {
    const bool close = i == cycle.size();
    out +=
        fmt::format("{} waits for '{}'", i == 1 ? "" : ", which", graph.name(cycle[close ? 0 : i]));
  }
  if (shown < cycle.size()) {
    out += fmt::format(", and so on through {} more back to '{}'", cycle.size() - shown - 1,
                       graph.name(cycle[0]));
  }
  return out;
}

}  // namespace ebb
