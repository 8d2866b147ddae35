#include "ebb/lower/in_place.h"

#include <algorithm>
#include <numeric>

#include "ebb/lower/elementwise.h"

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

class Finder {
 public:
  Finder(const Graph& graph, std::span<const Life> lives, std::span<const Bytes> sizes)
      : graph_(graph), lives_(lives), sizes_(sizes), is_returned_(graph.storage_count()) {
    for (const TensorId output : graph.outputs())
      is_returned_[graph.storage(output).index()] = true;
  }

  // The storage that a result of the node takes over; not valid when there is none.
  [[nodiscard]] StorageId find(NodeId node, std::size_t index, std::uint32_t position,
                               const Recipe& recipe) const {
    const TakeOver rule = may_take_over(graph_.op(node));
    if (rule == TakeOver::kNever || graph_.effect(node) == Effect::kEffect) return {};
    if (graph_.updates_something(node)) return {};
    if (graph_.results(node).size() != 1 && rule != TakeOver::kEach) return {};
    const TensorId result = graph_.results(node)[static_cast<std::uint32_t>(index)];
    const Bytes size = sizes_[graph_.storage(result).index()];
    const bool asked =
        std::any_of(recipe.requests.begin(), recipe.requests.end(), [&](const Request& request) {
          return request.result == static_cast<std::int32_t>(index) && request.size == size;
        });
    const TensorType& type = graph_.type(result);
    if (!asked || graph_.root(graph_.storage(result)) != result || !is_dense(type)) return {};

    const auto operands = graph_.operands(node);
    const std::size_t begin = rule == TakeOver::kEach ? index : 0;
    const std::size_t end = rule == TakeOver::kAny ? operands.size() : begin + 1;
    for (std::size_t i = begin; i < std::min(end, operands.size()); ++i) {
      const TensorId operand = operands[i].tensor;
      if (!operand.valid() || !same_places(graph_.type(operand), type)) continue;
      const StorageId storage = graph_.storage(operand);
      if (!ends(storage, position) || sizes_[storage.index()] != size) continue;
      if (graph_.offset(operand).count != 0 || graph_.size(storage) != extent(type)) continue;
      if (is_alone(operands, i, rule)) return storage;
    }
    return {};
  }

 private:
  // Nobody needs the storage's bytes after this line.
  [[nodiscard]] bool ends(StorageId storage, std::uint32_t position) const {
    const NodeKind origin = graph_.origin(storage);
    return (origin == NodeKind::kOp || origin == NodeKind::kInput) &&
           lives_[storage.index()].last == position && !is_returned_[storage.index()];
  }

  // What else the operation reads of the storage are the same elements in the same places.
  [[nodiscard]] bool is_alone(std::span<const Operand> operands, std::size_t candidate,
                              TakeOver rule) const {
    const TensorId taken = operands[candidate].tensor;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const TensorId other = operands[i].tensor;
      if (i == candidate || !other.valid()) continue;
      if (graph_.storage(other) != graph_.storage(taken)) continue;
      if (rule != TakeOver::kAny || graph_.offset(other) != graph_.offset(taken) ||
          !same_places(graph_.type(other), graph_.type(taken))) {
        return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  std::span<const Life> lives_;
  std::span<const Bytes> sizes_;
  std::vector<bool> is_returned_;
};

}  // namespace

std::vector<StorageId> find_takeovers(const Graph& graph, std::span<const Recipe> recipes,
                                      std::span<const Life> lives, std::span<const Bytes> sizes) {
  std::vector<StorageId> takes_over(graph.storage_count());
  const Finder finder(graph, lives, sizes);
  std::uint32_t position = 0;
  for (const NodeId node : graph.order()) {
    if (graph.is_op(node)) {
      std::size_t index = 0;
      for (const TensorId result : graph.results(node)) {
        const StorageId taken = finder.find(node, index++, position, recipes[node.index()]);
        if (taken.valid()) takes_over[graph.storage(result).index()] = taken;
      }
    }
    ++position;
  }
  return takes_over;
}

}  // namespace ebb
