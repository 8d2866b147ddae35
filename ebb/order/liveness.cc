#include "ebb/order/liveness.h"

#include <algorithm>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/views.h"
#include "ebb/order/arrivals.h"
#include "ebb/order/in_place.h"
#include "ebb/order/variables.h"

namespace ebb {
namespace {

// Copies over the link run beside the lines.
void extend_host_copies(const Graph& graph, std::vector<Life>& lives) {
  std::vector<std::uint32_t> made(graph.node_count());  // by node: its line
  std::vector<std::uint32_t> first_read(graph.storage_count(), 0);
  std::uint32_t position = 0;
  for (const NodeId node : graph.order()) {
    made[node.index()] = position;
    if (!makes_only_views(graph, node)) {
      for (const Operand& operand : graph.operands(node)) {
        if (!operand.tensor.valid()) continue;
        std::uint32_t& first = first_read[graph.storage(operand.tensor).index()];
        if (first == 0) first = position;
      }
    }
    ++position;
  }
  for (const NodeId node : graph.order()) {
    const std::string_view op = graph.op(node);
    if (op != kSwapOut && op != kSwapIn) continue;
    const TensorId source = graph.operands(node)[0].tensor;
    const StorageId from = graph.storage(source);
    const StorageId to = graph.storage(graph.results(node)[0]);
    if (op == kSwapOut) {
      Life& life = lives[to.index()];
      life.first = std::min(life.first, made[graph.producer(source).index()]);
    } else {
      Life& life = lives[from.index()];
      life.last = std::max(life.last, first_read[to.index()]);
    }
  }
}

}  // namespace

std::vector<Life> find_lives(const Graph& graph) {
  constexpr std::uint32_t kNever = 0xFFFFFFFF;
  std::vector<Life> lives(graph.storage_count(), Life{kNever, 0});
  const auto touch = [&](TensorId tensor, std::uint32_t position) {
    Life& life = lives[graph.storage(tensor).index()];
    life.first = std::min(life.first, position);
    life.last = std::max(life.last, position);
  };
  std::uint32_t position = 0;
  for (const NodeId node : graph.order()) {
    if (!makes_only_views(graph, node)) {
      for (const Operand& operand : graph.operands(node)) {
        if (operand.tensor.valid()) touch(operand.tensor, position);
      }
      for (const TensorId result : graph.results(node)) touch(result, position);
    }
    ++position;
  }
  extend_host_copies(graph, lives);
  const std::uint32_t end = position == 0 ? 0 : position - 1;
  for (const StorageId storage : graph.storages()) {
    const NodeKind kind = graph.origin(storage);
    Life& life = lives[storage.index()];
    if (kind != NodeKind::kOp) life.first = 0;
    if (kind == NodeKind::kParam || kind == NodeKind::kConst) life.last = end;
  }
  for (const TensorId output : graph.outputs()) touch(output, end);
  return lives;
}

MemoryCurve memory_curve(const Graph& graph, const std::vector<Life>& lives) {
  MemoryCurve curve;
  const std::size_t count = graph.order().size();
  // First the changes from line to line, then their sums.
  curve.device.assign(count + 1, Bytes{});
  curve.host.assign(count + 1, Bytes{});
  const Variables variables = find_variables(graph);
  curve.device[0] = variables.device_bytes;
  for (const StorageId storage : graph.storages()) {
    const auto size = variables.held(graph, storage);
    if (!size) {
      ++curve.unknown_sizes;
      continue;
    }
    auto& side = graph.residence(storage) == Residence::kHost ? curve.host : curve.device;
    const Life& life = lives[storage.index()];
    side[life.first] += *size;
    side[life.last + 1] -= *size;
  }
  for (const Arrival& arrival : find_arrivals(graph)) {
    curve.device[arrival.first] += arrival.size;
    curve.device[arrival.last + 1] -= arrival.size;
  }
  Bytes device;
  Bytes host;
  for (std::uint32_t i = 0; i < count; ++i) {
    device += curve.device[i];
    host += curve.host[i];
    const NodeId node = graph.order()[i];
    const bool on_host = graph.runs_on_host(node);
    curve.device[i] = device + (on_host ? Bytes{} : graph.workspace(node));
    curve.host[i] = host + (on_host ? graph.workspace(node) : Bytes{});
    curve.host_peak = std::max(curve.host_peak, curve.host[i]);
    if (curve.device[i] > curve.peak) {
      curve.peak = curve.device[i];
      curve.peak_position = i;
    }
  }
  curve.device.pop_back();
  curve.host.pop_back();
  return curve;
}

std::vector<Resident> residents_at(const Graph& graph, const std::vector<Life>& lives,
                                   std::uint32_t position) {
  std::vector<Resident> there;
  const Variables variables = find_variables(graph);
  there.reserve(variables.on_device.size());
  for (const Variable& variable : variables.on_device) {
    there.push_back({variable.handle, variable.size});
  }
  for (const StorageId storage : graph.storages()) {
    if (!lives[storage.index()].covers(position)) continue;
    if (graph.residence(storage) != Residence::kDevice) continue;
    if (variables.is_read[storage.index()]) continue;
    if (const auto size = graph.size(storage)) there.push_back({storage, *size});
  }
  for (const Arrival& arrival : find_arrivals(graph)) {
    if (arrival.first <= position && position <= arrival.last) {
      there.push_back({arrival.storage, arrival.size});
    }
  }
  std::stable_sort(there.begin(), there.end(),
                   [](const Resident& a, const Resident& b) { return a.size > b.size; });
  return there;
}

Floor find_floor(const Graph& graph) {
  Floor floor;
  std::vector<NodeId> last_user(graph.storage_count());  // so that each storage counts once
  for (const NodeId node : graph.order()) {
    // The host reads device tensors through copies, piece by piece if need be.
    if (!graph.is_op(node) || graph.runs_on_host(node)) continue;
    Bytes bytes = graph.workspace(node);
    const bool runs = !makes_only_views(graph, node);
    const auto count = [&](TensorId tensor) {
      const StorageId storage = graph.storage(tensor);
      if (!runs || last_user[storage.index()] == node) return;
      last_user[storage.index()] = node;
      const auto size = graph.size(storage);
      const bool is_there =
          graph.residence(storage) == Residence::kDevice || reads_arrival(graph, node, tensor);
      if (size && is_there) bytes += *size;
    };
    for (const Operand& operand : graph.operands(node)) {
      if (operand.tensor.valid()) count(operand.tensor);
    }
    for (const TensorId result : graph.results(node)) count(result);
    for (std::uint32_t i = 0; i < graph.results(node).size(); ++i) {
      if (can_take_over(graph, node, i)) {
        bytes -= graph.size(graph.storage(graph.results(node)[i])).value_or(Bytes{});
      }
    }
    if (!floor.node.valid() || bytes > floor.bytes) floor = {node, bytes};
  }
  return floor;
}

}  // namespace ebb
