#include "ebb/import/complete_shapes.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <vector>

#include "ebb/graph/dtype.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/repeatable.h"
#include "ebb/import/derive_shape.h"
#include "ebb/import/known_values.h"

namespace ebb {
namespace {

constexpr std::int64_t kOpen = TensorType::kUnknownDim;

bool is_open(const TensorType& type) {
  return type.ranked && std::find(type.dims.begin(), type.dims.end(), kOpen) != type.dims.end();
}

class Filler {
 public:
  Filler(Graph& graph, std::int64_t batch_size)
      : graph_(graph), edit_(graph), batch_size_(batch_size), known_(graph) {}

  void run() {
    const std::vector<NodeId> lines(graph_.order().begin(), graph_.order().end());
    for (const NodeId node : lines | std::views::reverse) narrow_operands(node);
    original_ = graph_;
    for (const NodeId node : original_.order()) {
      known_.follow(node);
      for (const TensorId result : original_.results(node)) {
        if (is_open(original_.type(result))) fill(node, result);
      }
    }
  }

 private:
  // By what the result is known to be. (A `Reshape` to as many dimensions undoes what a reduction
  // over no dimension might have done.)
  void narrow_operands(NodeId node) {
    const bool keeps_shape = is_elementwise(graph_.op(node)) || hands_on_bytes(graph_.op(node));
    if (!keeps_shape || graph_.results(node).empty()) return;
    const TensorType made = graph_.type(graph_.results(node)[0]);
    if (!made.ranked) return;
    for (const Operand& operand : graph_.operands(node)) {
      if (!operand.tensor.valid()) continue;
      TensorType type = graph_.type(operand.tensor);
      if (!is_open(type) || type.dims.size() != made.dims.size()) continue;
      for (std::size_t i = 0; i < type.dims.size(); ++i) {
        if (type.dims[i] == kOpen) type.dims[i] = made.dims[i];
      }
      if (!is_too_large(type)) edit_.set_type(operand.tensor, edit_.intern(type));
    }
  }

  void fill(NodeId node, TensorId tensor) {
    TensorType type = original_.type(tensor);
    fill_derived(node, tensor, type);
    if (is_open(type)) fill_view(tensor, type);
    for (std::size_t i = 0; i < type.dims.size(); ++i) {
      if (type.dims[i] == kOpen) type.dims[i] = from_operands(node, type, i);
    }
    if (is_too_large(type) || is_beyond_root(tensor, type)) return;  // and stays open
    edit_.set_type(tensor, edit_.intern(type));
  }

  [[nodiscard]] bool is_beyond_root(TensorId tensor, const TensorType& type) const {
    const TensorId root = graph_.root(graph_.storage(tensor));
    const auto all = extent(graph_.type(root));
    return root != tensor && all && extent(type).value_or(Bytes{}) > *all;
  }

  // By what the operator does with what it reads. Where that is another shape than the graph says,
  // the graph counts.
  void fill_derived(NodeId node, TensorId tensor, TensorType& type) const {
    const auto derived = derive(node, tensor, type);
    if (!derived || derived->size() != type.dims.size()) return;
    TensorType filled = type;
    for (std::size_t i = 0; i < filled.dims.size(); ++i) {
      const std::int64_t dim = (*derived)[i];
      if (filled.dims[i] == kOpen) filled.dims[i] = dim;
      if (dim != kOpen && dim != filled.dims[i]) return;
    }
    if (!is_too_large(filled) && !is_beyond_root(tensor, filled)) type = filled;
  }

  [[nodiscard]] std::optional<std::vector<std::int64_t>> derive(NodeId node, TensorId tensor,
                                                                const TensorType& type) const {
    const Elements* elements = known_.find(tensor);
    if (elements != nullptr && type.dims.size() == 1) {
      return std::vector{static_cast<std::int64_t>(elements->size())};
    }
    if (tensor != graph_.results(node)[0]) return std::nullopt;
    return derive_shape(graph_, known_, node);
  }

  // What is a view has as many elements as what it is a view of. Where several dimensions are open,
  // the first is the batch and the last has the rest.
  void fill_view(TensorId tensor, TensorType& type) const {
    const TensorId root = graph_.root(graph_.storage(tensor));
    const auto bytes = extent(graph_.type(root));
    if (root == tensor || !bytes) return;
    TensorType filled = type;
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < filled.dims.size(); ++i) {
      if (filled.dims[i] != kOpen) continue;
      open.push_back(i);
      filled.dims[i] = 1;
    }
    const auto unit = extent(filled);
    if (!unit || unit->count == 0 || bytes->count % unit->count != 0) return;
    std::int64_t rest = bytes->count / unit->count;
    if (open.size() > 1 && rest % batch_size_ == 0) {
      filled.dims[open.front()] = batch_size_;
      rest /= batch_size_;
    }
    filled.dims[open.back()] = rest;
    type = filled;
  }

  [[nodiscard]] std::int64_t from_operands(NodeId node, const TensorType& type,
                                           std::size_t place) const {
    std::int64_t anywhere = kOpen;
    bool has_open_operand = false;
    for (const Operand& operand : original_.operands(node)) {
      if (!operand.tensor.valid()) continue;
      const TensorType& before = original_.type(operand.tensor);
      const TensorType& now = graph_.type(operand.tensor);
      if (!is_open(before)) continue;
      has_open_operand = true;
      const bool may_match = place == 0 || before.dims.size() == type.dims.size();
      if (may_match && place < before.dims.size() && before.dims[place] == kOpen) {
        return now.dims[place];
      }
      for (std::size_t i = 0; i < before.dims.size() && anywhere == kOpen; ++i) {
        if (before.dims[i] == kOpen) anywhere = now.dims[i];
      }
    }
    if (has_open_operand) return anywhere;
    return place == 0 ? batch_size_ : kOpen;
  }

  Graph& graph_;
  Graph original_;  // before dimensions were filled
  GraphEdit edit_;
  std::int64_t batch_size_;
  KnownValues known_;
};

}  // namespace

void complete_shapes(Graph& graph, std::int64_t batch_size) { Filler(graph, batch_size).run(); }

std::vector<TensorId> empty_unranked(Graph& graph) {
  std::vector<Bytes> seen(graph.storage_count());  // as much as views of them show
  for (const TensorId tensor : graph.tensors()) {
    Bytes& most = seen[graph.storage(tensor).index()];
    most = std::max(most, extent(graph.type(tensor)).value_or(Bytes{}));
  }
  GraphEdit edit(graph);
  std::vector<TensorId> unranked;
  for (const TensorId tensor : graph.tensors()) {
    TensorType type = graph.type(tensor);
    const auto element = static_cast<std::int64_t>(element_size(type.dtype));
    if (type.ranked || element == 0) continue;
    const StorageId storage = graph.storage(tensor);
    const bool is_root = graph.root(storage) == tensor;
    type.ranked = true;
    type.dims = {is_root ? (seen[storage.index()].count + element - 1) / element : 0};
    edit.set_type(tensor, edit.intern(type));
    if (type.dims[0] == 0) unranked.push_back(tensor);
  }
  return unranked;
}

void restore_types(Graph& graph, const Graph& original) {
  GraphEdit edit(graph);
  for (const TensorId tensor : original.tensors()) {
    edit.set_type(tensor, edit.intern(original.type(tensor)));
  }
}

}  // namespace ebb
