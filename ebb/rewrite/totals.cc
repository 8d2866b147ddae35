#include "ebb/rewrite/totals.h"

#include <algorithm>

namespace ebb {
namespace {

constexpr std::int64_t kLimit = std::int64_t{1} << 62U;

// Of two numbers from 0 to kLimit + 1; sums above the limit are all the same.
std::int64_t sum(std::int64_t a, std::int64_t b) {
  return a > kLimit || b > kLimit - a ? kLimit + 1 : a + b;
}

}  // namespace

Totals::Totals(const Graph& graph) {
  for (const StorageId storage : graph.storages()) add(graph.type(graph.root(storage)));
  for (const NodeId node : graph.nodes()) add_costs(graph, node);
}

void Totals::add(const TensorType& type) {
  const auto size = extent(type);
  if (size) bytes_ = sum(bytes_, size->count);
}

void Totals::add_workspace(Bytes bytes) { bytes_ = sum(bytes_, bytes.count); }

void Totals::add_costs(const Graph& graph, NodeId node) {
  add_workspace(graph.workspace(node));
  const auto takes = graph.takes(node);
  if (takes) nanoseconds_ = sum(nanoseconds_, takes->count());
}

bool Totals::has_room_for(const Totals& more) const {
  return sum(bytes_, more.bytes_) <= kLimit && sum(nanoseconds_, more.nanoseconds_) <= kLimit;
}

}  // namespace ebb
