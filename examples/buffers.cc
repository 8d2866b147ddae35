#include "examples/buffers.h"

#include <algorithm>

#include "ebb/order/liveness.h"

namespace ebb::examples {
namespace {

Bytes aligned(Bytes size, Bytes alignment) {
  return Bytes{(size.count + alignment.count - 1) / alignment.count * alignment.count};
}

// By time, without what is fixed.
std::vector<Bytes> curve_of(const std::vector<LayoutBuffer>& buffers) {
  std::uint32_t end = 0;
  for (const LayoutBuffer& buffer : buffers) end = std::max(end, buffer.last + 1);
  std::vector<Bytes> curve(end + std::size_t{1});
  for (const LayoutBuffer& buffer : buffers) {
    if (buffer.at) continue;
    curve[buffer.first] += buffer.size;
    curve[buffer.last + 1] -= buffer.size;
  }
  for (std::size_t i = 1; i < curve.size(); ++i) curve[i] += curve[i - 1];
  return curve;
}

}  // namespace

std::vector<LayoutBuffer> device_buffers(const Graph& graph, const LayoutOptions& options) {
  const std::vector<Life> lives = find_lives(graph);
  std::vector<LayoutBuffer> buffers;
  Bytes state;
  for (const StorageId storage : graph.storages()) {
    const std::optional<Bytes> size = graph.size(storage);
    if (!size || graph.residence(storage) == Residence::kHost) continue;
    const Life& life = lives[storage.index()];
    LayoutBuffer buffer{.size = *size, .first = life.first, .last = life.last, .at = {}};
    const NodeKind kind = graph.origin(storage);
    if (kind == NodeKind::kParam || kind == NodeKind::kConst) {
      buffer.at = state;
      state += aligned(*size, options.alignment);
    }
    buffers.push_back(buffer);
  }
  std::uint32_t position = 0;
  for (const NodeId node : graph.order()) {
    const Bytes workspace = graph.workspace(node);
    if (workspace > Bytes{} && !graph.runs_on_host(node)) {
      buffers.push_back({.size = workspace, .first = position, .last = position, .at = {}});
    }
    ++position;
  }
  return buffers;
}

std::vector<LayoutBuffer> on_budget(std::vector<LayoutBuffer> buffers, double share) {
  constexpr std::uint32_t kOutgoing = 4;  // lines that a copy keeps its source, or its target
  constexpr std::uint32_t kIncoming = 5;
  constexpr std::uint32_t kWorthwhile = 40;  // lines between the two ends of a life
  std::vector<Bytes> curve = curve_of(buffers);
  const auto budget = static_cast<std::int64_t>(
      share * static_cast<double>(std::max_element(curve.begin(), curve.end())->count));
  while (true) {
    const auto highest = std::max_element(curve.begin(), curve.end());
    if (highest->count <= budget) return buffers;
    const auto peak = static_cast<std::uint32_t>(highest - curve.begin());
    LayoutBuffer* largest = nullptr;
    for (LayoutBuffer& buffer : buffers) {
      const bool waits = buffer.last - buffer.first > kWorthwhile &&
                         buffer.first + kOutgoing < peak && peak + kIncoming < buffer.last;
      if (!waits || buffer.at) continue;
      if (largest == nullptr || buffer.size > largest->size) largest = &buffer;
    }
    if (largest == nullptr) return buffers;
    LayoutBuffer back = *largest;
    largest->last = largest->first + kOutgoing;
    back.first = back.last - kIncoming;
    for (std::uint32_t i = largest->last + 1; i < back.first; ++i) curve[i] -= back.size;
    buffers.push_back(back);
  }
}

}  // namespace ebb::examples
