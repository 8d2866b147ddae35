#include "ebb/order/in_place.h"

#include <algorithm>
#include <numeric>

#include "ebb/graph/ebb_ops.h"
#include "ebb/order/elementwise.h"
#include "ebb/order/variables.h"

namespace ebb {
namespace {

// Every byte from the first element to the last belongs to exactly one element.
bool is_dense(const TensorType& type) {
  if (type.strides.empty()) return true;
  std::vector<std::size_t> by_stride(type.dims.size());
  std::iota(by_stride.begin(), by_stride.end(), 0);
  std::erase_if(by_stride, [&](std::size_t i) { return type.dims[i] == 1; });
  std::sort(by_stride.begin(), by_stride.end(),
            [&](std::size_t a, std::size_t b) { return type.strides[a] < type.strides[b]; });
  std::int64_t expected = 1;
  for (const std::size_t i : by_stride) {
    if (type.strides[i] != expected) return false;
    expected *= type.dims[i];
  }
  return true;
}

// Types are canonical: strides are there only when they are not row-major.
bool same_places(const TensorType& a, const TensorType& b) {
  return element_size(a.dtype) == element_size(b.dtype) && a.dims == b.dims &&
         a.strides == b.strides;
}

bool is_tensorflow(const Graph& graph, NodeId node) { return graph.op(node).starts_with("tf::"); }

// What else the operation reads of the storage are the same elements in the same places.
bool is_alone(const Graph& graph, NodeId node, std::size_t candidate, TakeOver rule) {
  const bool counts_holders = is_tensorflow(graph, node);
  const auto operands = graph.operands(node);
  const TensorId taken = operands[candidate].tensor;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const TensorId other = operands[i].tensor;
    if (i == candidate || !other.valid()) continue;
    if (graph.storage(other) != graph.storage(taken)) continue;
    if (counts_holders || rule != TakeOver::kAny || graph.offset(other) != graph.offset(taken) ||
        !same_places(graph.type(other), graph.type(taken))) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool could_take_over(const Graph& graph, NodeId node, std::uint32_t result, std::uint32_t operand) {
  const TakeOver rule = may_take_over(graph.op(node));
  if (rule == TakeOver::kNever || graph.effect(node) == Effect::kEffect) return false;
  if (graph.updates_something(node)) return false;
  if (graph.results(node).size() != 1 && rule != TakeOver::kEach) return false;
  if (rule == TakeOver::kFirst && operand != 0) return false;
  if (rule == TakeOver::kEach && operand != result) return false;
  const TensorId made = graph.results(node)[result];
  const TensorId taken = graph.operands(node)[operand].tensor;
  const TensorType& type = graph.type(made);
  if (!taken.valid() || !same_places(graph.type(taken), type)) return false;
  if (graph.type(taken).residence != type.residence) return false;
  if (graph.root(graph.storage(made)) != made || !is_dense(type)) return false;
  const StorageId storage = graph.storage(taken);
  const NodeKind origin = graph.origin(storage);
  const bool is_given_away =
      origin == NodeKind::kOp || (origin == NodeKind::kInput && !is_tensorflow(graph, node));
  return is_given_away && !reads_whole_variable(graph, graph.producer(graph.root(storage))) &&
         graph.offset(taken).count == 0 && graph.size(storage) == extent(type) &&
         is_alone(graph, node, operand, rule);
}

bool can_take_over(const Graph& graph, NodeId node, std::uint32_t result) {
  if (may_take_over(graph.op(node)) == TakeOver::kNever) return false;
  for (std::uint32_t i = 0; i < graph.operands(node).size(); ++i) {
    if (could_take_over(graph, node, result, i)) return true;
  }
  return false;
}

std::vector<StorageId> find_takeovers(const Graph& graph, std::span<const Life> lives,
                                      std::span<const Bytes> sizes,
                                      const std::vector<bool>& can_be_placed) {
  std::vector<bool> is_needed(graph.storage_count());  // by others than operations in line
  for (const TensorId output : graph.outputs()) is_needed[graph.storage(output).index()] = true;
  for (const NodeId node : graph.order()) {
    if (!graph.is_op(node) || graph.op(node) != kSwapOut) continue;
    is_needed[graph.storage(graph.operands(node)[0].tensor).index()] = true;
  }
  std::vector<StorageId> takes_over(graph.storage_count());
  const auto find = [&](NodeId node, std::uint32_t result, std::uint32_t position) {
    const StorageId made = graph.storage(graph.results(node)[result]);
    if (!can_be_placed[made.index()]) return;
    for (std::uint32_t i = 0; i < graph.operands(node).size(); ++i) {
      if (!could_take_over(graph, node, result, i)) continue;
      const StorageId taken = graph.storage(graph.operands(node)[i].tensor);
      if (lives[taken.index()].last != position || is_needed[taken.index()]) continue;
      if (sizes[taken.index()] != sizes[made.index()]) continue;
      takes_over[made.index()] = taken;
      return;
    }
  };
  std::uint32_t position = 0;
  for (const NodeId node : graph.order()) {
    if (graph.is_op(node) && may_take_over(graph.op(node)) != TakeOver::kNever) {
      for (std::uint32_t i = 0; i < graph.results(node).size(); ++i) find(node, i, position);
    }
    ++position;
  }
  return takes_over;
}

}  // namespace ebb
