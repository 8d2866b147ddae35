#include "ebb/graph/graph.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ebb/graph/ebb_ops.h"

namespace ebb {
namespace {

template <class IdType, class T>
IdRange<IdType> all(const std::vector<T>& items) {
  return {0, static_cast<std::uint32_t>(items.size())};
}

}  // namespace

bool same_value(const Value& a, const Value& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y) ||
         (std::isnan(*x) && std::isnan(*y));
}

Graph::Graph(std::string_view name) {
  // The first symbol is the empty text: the operator of what is no operation, the default device.
  symbols_.intern("");
  name_ = symbols_.intern(name);
}

IdRange<NodeId> Graph::nodes() const { return all<NodeId>(nodes_); }
IdRange<TensorId> Graph::tensors() const { return all<TensorId>(tensors_); }
IdRange<StorageId> Graph::storages() const { return all<StorageId>(storages_); }
IdRange<ScalarId> Graph::scalars() const { return all<ScalarId>(scalars_); }
IdRange<ScopeId> Graph::scopes() const { return all<ScopeId>(scopes_); }

std::span<const Operand> Graph::operands(NodeId node) const {
  return slice(operand_pool_, nodes_[node.index()].operands);
}

bool Graph::updates_something(NodeId node) const {
  return std::any_of(operands(node).begin(), operands(node).end(),
                     [](const Operand& operand) { return operand.access == Access::kUpdate; });
}

bool Graph::runs_on_host(NodeId node) const {
  if (!is_op(node) || op(node) == kSwapOut || op(node) == kSwapIn) return false;
  if (scalar_result(node).valid()) return true;
  const auto made = results(node);
  return !made.empty() && std::all_of(made.begin(), made.end(), [this](TensorId result) {
    return type(result).residence == Residence::kHost;
  });
}

IdRange<TensorId> Graph::results(NodeId node) const {
  const Range range = nodes_[node.index()].results;
  return {range.begin, range.count};
}

ScalarId Graph::scalar_result(NodeId node) const { return nodes_[node.index()].scalar_result; }

std::span<const NodeId> Graph::controls(NodeId node) const {
  return slice(control_pool_, nodes_[node.index()].controls);
}

std::span<const Attribute> Graph::attributes(NodeId node) const {
  return slice(attribute_pool_, nodes_[node.index()].attributes);
}

const Attribute* Graph::find_attribute(NodeId node, std::string_view key) const {
  for (const Attribute& attribute : attributes(node)) {
    if (text(attribute.key) == key) return &attribute;
  }
  return nullptr;
}

std::span<const Value> Graph::items(const Attribute& attribute) const {
  return slice(item_pool_, Range{attribute.first_item, attribute.item_count});
}

std::span<const Value> Graph::scalar_arguments(NodeId node) const {
  return slice(item_pool_, nodes_[node.index()].scalar_arguments);
}

std::string_view Graph::device(NodeId node) const { return text(nodes_[node.index()].device); }

std::optional<Duration> Graph::takes(NodeId node) const {
  const Duration takes = nodes_[node.index()].takes;
  return takes == kUnknownDuration ? std::nullopt : std::optional(takes);
}

std::optional<Bytes> Graph::size(StorageId storage) const { return extent(type(root(storage))); }

NodeId Graph::find_node(std::string_view name) const {
  const Named* found = named(symbols_.find(name));
  return found == nullptr ? NodeId() : found->node;
}

TensorId Graph::find_tensor(std::string_view name) const {
  const Named* found = named(symbols_.find(name));
  return found == nullptr ? TensorId() : found->tensor;
}

ScalarId Graph::find_scalar(std::string_view name) const {
  const Named* found = named(symbols_.find(name));
  return found == nullptr ? ScalarId() : found->scalar;
}

ScopeId Graph::find_scope(std::string_view name) const {
  const Named* found = named(symbols_.find(name));
  return found == nullptr ? ScopeId() : found->scope;
}

}  // namespace ebb
