#include "ebb/order/arrivals.h"

#include <algorithm>

#include "ebb/graph/dtype.h"
#include "ebb/graph/views.h"
#include "ebb/import/tensorflow_device.h"

namespace ebb {
namespace {

// Kernels of a GPU leave small things on the host, as shapes, for others of that GPU to read there.
bool are_apart(std::string_view maker, std::string_view reader) {
  if (maker == reader) return false;
  const DeviceName a = read_device(maker);
  const DeviceName b = read_device(reader);
  return !a.type.empty() && (a.type != b.type || a.number != b.number || a.task != b.task);
}

}  // namespace

bool reads_arrival(const Graph& graph, NodeId reader, TensorId tensor) {
  if (!tensor.valid() || graph.type(tensor).residence != Residence::kHost) return false;
  if (!graph.is_op(reader) || !graph.op(reader).starts_with("tf::")) return false;
  if (graph.runs_on_host(reader) || makes_only_views(graph, reader)) return false;
  if (element_size(graph.type(tensor).dtype) == 0) return false;
  const TensorId root = graph.root(graph.storage(tensor));
  return are_apart(graph.device(graph.producer(root)), graph.device(reader));
}

std::vector<Arrival> find_arrivals(const Graph& graph) {
  std::vector<std::uint32_t> last(graph.storage_count());  // one more than the line; 0: nobody's
  std::vector<std::uint32_t> line_of(graph.node_count());
  std::uint32_t line = 0;
  for (const NodeId node : graph.order()) {
    line_of[node.index()] = line++;
    for (const Operand& operand : graph.operands(node)) {
      if (reads_arrival(graph, node, operand.tensor)) {
        last[graph.storage(operand.tensor).index()] = line;
      }
    }
  }
  std::vector<Arrival> arrivals;
  for (const StorageId storage : graph.storages()) {
    const auto size = graph.size(storage);
    if (last[storage.index()] == 0 || !size) continue;
    const NodeId maker = graph.producer(graph.root(storage));
    arrivals.push_back({.storage = storage,
                        .size = *size,
                        .first = graph.is_op(maker) ? line_of[maker.index()] : 0,
                        .last = last[storage.index()] - 1});
  }
  return arrivals;
}

}  // namespace ebb
