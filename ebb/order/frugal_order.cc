#include "ebb/order/frugal_order.h"

#include <algorithm>
#include <queue>

#include "ebb/graph/dependence.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/views.h"
#include "ebb/order/liveness.h"
#include "ebb/order/variables.h"

namespace ebb {
namespace {

class Scheduler {
 public:
  explicit Scheduler(const Graph& graph)
      : graph_(graph),
        dependence_(graph),
        variables_(find_variables(graph)),
        missing_(graph.node_count()),
        read_by_(graph.node_count()),
        readers_of_(graph.storage_count()),
        unread_(graph.storage_count()),
        place_(graph.node_count()),
        is_done_(graph.node_count()) {
    std::uint32_t place = 0;
    for (const NodeId node : graph.order()) {
      place_[node.index()] = place++;
      missing_[node.index()] = static_cast<std::uint32_t>(dependence_.before(node).size());
      if (!makes_only_views(graph, node)) note_reads(node);
    }
    // What is returned is never freed.
    for (const TensorId output : graph.outputs()) ++unread_[graph.storage(output).index()];
  }

  std::vector<NodeId> run() {
    for (const NodeId node : graph_.order()) {
      if (missing_[node.index()] == 0) offer(node);
    }
    std::vector<NodeId> order;
    order.reserve(graph_.node_count());
    while (!ready_.empty()) {
      const NodeId next = ready_.top().node;
      ready_.pop();
      if (is_done_[next.index()]) continue;  // it stood there twice
      is_done_[next.index()] = true;
      order.push_back(next);
      finish(next);
    }
    return order;
  }

 private:
  struct Ready {
    std::int64_t gain = 0;
    std::uint32_t place = 0;
    NodeId node;

    // The largest gain comes first, then what stands first in the graph.
    bool operator<(const Ready& other) const {
      return gain != other.gain ? gain < other.gain : place > other.place;
    }
  };

  void note_reads(NodeId node) {
    for (const Operand& operand : graph_.operands(node)) {
      if (!operand.tensor.valid()) continue;
      const StorageId storage = graph_.storage(operand.tensor);
      std::vector<NodeId>& readers = readers_of_[storage.index()];
      if (graph_.residence(storage) == Residence::kHost) continue;
      if (!readers.empty() && readers.back() == node) continue;
      readers.push_back(node);
      read_by_[node.index()].push_back(storage);
      ++unread_[storage.index()];
    }
  }

  [[nodiscard]] std::int64_t size_of(StorageId storage) const {
    return variables_.held(graph_, storage).value_or(Bytes{}).count;
  }

  // What the device has more of when the node has run. Lines that run no code, and what the host
  // does, cost nothing, and others wait for them.
  [[nodiscard]] std::int64_t gain_of(NodeId node) const {
    constexpr std::int64_t kAtOnce = std::int64_t{1} << 62;
    if (!graph_.is_op(node) || makes_only_views(graph_, node) || graph_.runs_on_host(node)) {
      return kAtOnce;
    }
    std::int64_t gain = 0;
    for (const TensorId result : graph_.results(node)) {
      const StorageId storage = graph_.storage(result);
      const bool is_new = graph_.root(storage) == result;
      if (is_new && graph_.residence(storage) == Residence::kDevice) gain -= size_of(storage);
    }
    for (const StorageId storage : read_by_[node.index()]) {
      const bool is_last = unread_[storage.index()] == 1;
      if (is_last && graph_.origin(storage) == NodeKind::kOp) gain += size_of(storage);
    }
    return gain;
  }

  void offer(NodeId node) { ready_.push({gain_of(node), place_[node.index()], node}); }

  void finish(NodeId node) {
    for (const Dependence::Edge& edge : dependence_.after(node)) {
      if (--missing_[edge.node.index()] == 0) offer(edge.node);
    }
    for (const StorageId storage : read_by_[node.index()]) {
      if (--unread_[storage.index()] != 1) continue;
      // Who is left frees the bytes now. Each storage comes here once.
      for (const NodeId reader : readers_of_[storage.index()]) {
        if (!is_done_[reader.index()] && missing_[reader.index()] == 0) offer(reader);
      }
    }
  }

  const Graph& graph_;
  Dependence dependence_;
  Variables variables_;
  std::vector<std::uint32_t> missing_;           // by node: how many it still waits for
  std::vector<std::vector<StorageId>> read_by_;  // by node: on the device, each once
  std::vector<std::vector<NodeId>> readers_of_;  // by storage
  std::vector<std::uint32_t> unread_;            // by storage: how many readers have not run
  std::vector<std::uint32_t> place_;             // by node: in the graph's order
  std::vector<bool> is_done_;
  std::priority_queue<Ready> ready_;
};

Bytes peak_of(const Graph& graph) { return memory_curve(graph, find_lives(graph)).peak; }

}  // namespace

std::vector<NodeId> find_frugal_order(const Graph& graph) {
  std::vector<NodeId> order = Scheduler(graph).run();
  Graph ordered = graph;
  GraphEdit(ordered).set_order(order);
  if (peak_of(ordered) < peak_of(graph)) return order;
  return {graph.order().begin(), graph.order().end()};
}

}  // namespace ebb
