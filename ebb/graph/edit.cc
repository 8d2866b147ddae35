#include "ebb/graph/edit.h"

#include <algorithm>
#include <utility>

#include "ebb/base/check.h"
#include "ebb/graph/graph_check.h"
#include "ebb/graph/versions.h"

namespace ebb {
namespace {

std::uint64_t hash_type(const TensorType& type) {
  const auto bytes = [](const std::vector<std::int64_t>& numbers) {
    return std::string_view(reinterpret_cast<const char*>(numbers.data()),
                            numbers.size() * sizeof(std::int64_t));
  };
  const std::uint64_t rest = (static_cast<std::uint64_t>(type.dtype) << 2U) |
                             (static_cast<std::uint64_t>(type.residence) << 1U) |
                             static_cast<std::uint64_t>(type.ranked);
  std::uint64_t hash = hash_bytes(bytes(type.dims)) + rest * 0x9E3779B97F4A7C15;
  if (!type.strides.empty()) hash ^= hash_bytes(bytes(type.strides)) * 3;
  return hash ^ (hash << 32U);  // HashIndex looks at the upper half
}

template <class T>
std::uint32_t next_id(const std::vector<T>& items) {
  // The last id is the id of nothing.
  EBB_CHECK(items.size() < 0xFFFFFFFF, "a graph has more than 2^32-2 parts of one kind");
  return static_cast<std::uint32_t>(items.size());
}

}  // namespace

void GraphEdit::reserve(std::size_t nodes, std::size_t text_bytes) {
  graph_.symbols_.reserve(nodes, text_bytes);
  graph_.named_.reserve(nodes);
  graph_.nodes_.reserve(nodes);
  graph_.tensors_.reserve(nodes);
  graph_.storages_.reserve(nodes);
  graph_.order_.reserve(nodes);
  graph_.operand_pool_.reserve(2 * nodes);
}

TypeId GraphEdit::intern(const TensorType& type) {
  if (!type.strides.empty() && type.strides == row_major_strides(type.dims)) {
    TensorType plain = type;
    plain.strides.clear();
    return intern(plain);
  }
  const std::uint64_t hash = hash_type(type);
  const std::uint32_t known =
      graph_.type_index_.find(hash, [&](std::uint32_t id) { return graph_.types_[id] == type; });
  if (known != HashIndex::kNone) return TypeId(known);
  const std::uint32_t id = next_id(graph_.types_);
  graph_.types_.push_back(type);
  graph_.type_index_.insert(hash, id);
  return TypeId(id);
}

Graph::Named& GraphEdit::meaning(SymbolId name) {
  if (name.index() >= graph_.named_.size()) graph_.named_.resize(graph_.symbols_.size());
  return graph_.named_[name.index()];
}

bool GraphEdit::is_taken(SymbolId name) const {
  if (name.index() >= graph_.named_.size()) return false;
  const Graph::Named& named = graph_.named_[name.index()];
  return named.node.valid() || named.tensor.valid() || named.scalar.valid();
}

ScopeId GraphEdit::add_scope(ScopeKind kind, SymbolId name, ScopeId parent) {
  const ScopeId id(next_id(graph_.scopes_));
  graph_.scopes_.push_back({name, kind, parent});
  Graph::Named& named = meaning(name);
  if (!named.scope.valid()) named.scope = id;
  return id;
}

NodeId GraphEdit::add_node(NodeKind kind, std::string_view op) {
  const NodeId id(next_id(graph_.nodes_));
  Graph::Node& node = graph_.nodes_.emplace_back();
  node.kind = kind;
  if (!op.empty()) node.op = intern(op);
  graph_.order_.push_back(id);
  return id;
}

void GraphEdit::set_label(NodeId node, SymbolId name) {
  record(node).name = name;
  if (!is_taken(name)) meaning(name).node = node;
}

TensorId GraphEdit::add_tensor(NodeId node, const Graph::Tensor& tensor) {
  const TensorId id(next_id(graph_.tensors_));
  Graph::Range& results = record(node).results;
  if (results.count == 0) {
    results.begin = id.index();
    record(node).name = tensor.name;
  }
  EBB_CHECK_ON(graph_, results.begin + results.count == id.index(),
               "results of '{}' are not added in a row", graph_.name(node));
  ++results.count;
  graph_.tensors_.push_back(tensor);
  if (!is_taken(tensor.name)) {
    Graph::Named& named = meaning(tensor.name);
    named.tensor = id;
    if (results.count == 1) named.node = node;
  }
  return id;
}

TensorId GraphEdit::add_result(NodeId node, SymbolId name, TypeId type) {
  const StorageId storage(next_id(graph_.storages_));
  graph_.storages_.push_back(Graph::Storage{TensorId(next_id(graph_.tensors_))});
  return add_tensor(node, Graph::Tensor{.name = name,
                                        .type = type,
                                        .producer = node,
                                        .storage = storage,
                                        .offset = {},
                                        .version = 0});
}

TensorId GraphEdit::add_shared_result(NodeId node, SymbolId name, TypeId type, TensorId of,
                                      Bytes offset) {
  return add_tensor(node, Graph::Tensor{.name = name,
                                        .type = type,
                                        .producer = node,
                                        .storage = graph_.storage(of),
                                        .offset = offset,
                                        .version = version_made_by(node, of)});
}

// The operands of a node are looked at once, however many results it has.
std::uint32_t GraphEdit::version_made_by(NodeId node, TensorId sharing) {
  if (versions_made_of_ != node) {
    versions_made_of_ = node;
    ++round_;
    versions_made_.resize(graph_.storage_count());
    for (const Operand& operand : graph_.operands(node)) {
      if (!operand.tensor.valid()) continue;
      VersionMade& made = versions_made_[graph_.storage(operand.tensor).index()];
      const std::uint32_t version = graph_.version(operand.tensor);
      if (operand.access == Access::kUpdate) {
        made = {round_, version + 1};
      } else if (made.round != round_) {
        made = {round_, version};
      }
    }
  }
  const std::size_t storage = graph_.storage(sharing).index();
  const bool known = storage < versions_made_.size() && versions_made_[storage].round == round_;
  return known ? versions_made_[storage].version : graph_.version(sharing);
}

ScalarId GraphEdit::add_scalar_result(NodeId node, SymbolId name, DType dtype) {
  const ScalarId id(next_id(graph_.scalars_));
  graph_.scalars_.push_back(Graph::Scalar{name, dtype, node});
  record(node).scalar_result = id;
  record(node).name = name;
  if (!is_taken(name)) {
    Graph::Named& named = meaning(name);
    named.scalar = id;
    named.node = node;
  }
  return id;
}

void GraphEdit::hand_over_results(NodeId from, std::size_t first, NodeId to) {
  Graph::Range& kept = record(from).results;
  Graph::Range& given = record(to).results;
  EBB_CHECK_ON(graph_, first > 0 && first < kept.count && given.count == 0,
               "'{}' cannot hand over its results from {} on", graph_.name(from), first);
  given = {kept.begin + static_cast<std::uint32_t>(first),
           kept.count - static_cast<std::uint32_t>(first)};
  kept.count = static_cast<std::uint32_t>(first);
  for (const TensorId result : graph_.results(to)) graph_.tensors_[result.index()].producer = to;
  const SymbolId name = graph_.tensors_[given.begin].name;
  record(to).name = name;
  if (Graph::Named& named = meaning(name); named.tensor.index() == given.begin) named.node = to;
}

namespace {

// Replaces what `range` names with `items`: in place when they fit, at the end of the pool when
// they do not. What is abandoned there costs a few bytes until the graph is printed and read again.
template <class Range, class T>
void replace(std::vector<T>& pool, Range& range, std::span<const T> items) {
  if (items.size() <= range.count) {
    std::copy(items.begin(), items.end(), pool.begin() + range.begin);
  } else {
    EBB_CHECK(items.size() < 0xFFFFFFFF - pool.size(), "a graph has more than 2^32-2 edges");
    range.begin = static_cast<std::uint32_t>(pool.size());
    pool.insert(pool.end(), items.begin(), items.end());
  }
  range.count = static_cast<std::uint32_t>(items.size());
}

// Adds one item: in place when the range is the last in its pool, moving it there when it is not.
template <class Range, class T>
void append(std::vector<T>& pool, Range& range, const T& item) {
  if (range.begin + range.count != pool.size()) {
    const std::uint32_t begin = std::exchange(range.begin, static_cast<std::uint32_t>(pool.size()));
    for (std::uint32_t i = 0; i < range.count; ++i) {
      const T moved = pool[begin + i];
      pool.push_back(moved);
    }
  }
  EBB_CHECK(pool.size() < 0xFFFFFFFF, "a graph has more than 2^32-2 edges");
  pool.push_back(item);
  ++range.count;
}

}  // namespace

void GraphEdit::set_operands(NodeId node, std::span<const Operand> operands) {
  replace(graph_.operand_pool_, record(node).operands, operands);
  versions_made_of_ = NodeId();
}

void GraphEdit::set_operand(NodeId node, std::size_t index, TensorId tensor) {
  const Graph::Range& range = record(node).operands;
  EBB_CHECK_ON(graph_, index < range.count, "'{}' has no operand {}", graph_.name(node), index);
  graph_.operand_pool_[range.begin + index].tensor = tensor;
  versions_made_of_ = NodeId();
}

void GraphEdit::set_controls(NodeId node, std::span<const NodeId> controls) {
  replace(graph_.control_pool_, record(node).controls, controls);
}

void GraphEdit::add_control(NodeId node, NodeId control) {
  append(graph_.control_pool_, record(node).controls, control);
}

void GraphEdit::add_attribute(NodeId node, SymbolId key, bool is_list,
                              std::span<const Value> items) {
  EBB_CHECK_ON(graph_, is_list || items.size() == 1, "attribute '{}' is one value",
               graph_.text(key));
  Graph::Range item_range;
  replace(graph_.item_pool_, item_range, items);
  append(graph_.attribute_pool_, record(node).attributes,
         Attribute{key, is_list, item_range.begin, item_range.count});
}

void GraphEdit::set_attribute(NodeId node, std::string_view key, std::span<const Value> items) {
  const auto attributes =
      std::span(graph_.attribute_pool_)
          .subspan(record(node).attributes.begin, record(node).attributes.count);
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const Attribute& it) { return graph_.text(it.key) == key; });
  EBB_CHECK_ON(graph_, found != attributes.end(), "'{}' has no attribute '{}'", graph_.name(node),
               key);
  Graph::Range range{found->first_item, found->item_count};
  replace(graph_.item_pool_, range, items);
  found->first_item = range.begin;
  found->item_count = range.count;
}

void GraphEdit::set_scalar_arguments(NodeId node, std::span<const Value> arguments) {
  replace(graph_.item_pool_, record(node).scalar_arguments, arguments);
}

void GraphEdit::renumber_versions() {
  const std::vector<std::uint32_t> versions = derive_versions(graph_);
  for (std::size_t i = 0; i < versions.size(); ++i) graph_.tensors_[i].version = versions[i];
}

void GraphEdit::set_outputs(std::span<const TensorId> outputs) {
  graph_.outputs_.assign(outputs.begin(), outputs.end());
}

void GraphEdit::set_order(std::vector<NodeId> order) {
  std::vector<bool> seen(graph_.nodes_.size());
  EBB_CHECK_ON(graph_, order.size() == seen.size(), "an order of {} nodes for a graph of {}",
               order.size(), seen.size());
  for (const NodeId node : order) {
    EBB_CHECK_ON(graph_, node.index() < seen.size() && !seen[node.index()],
                 "no permutation of the nodes");
    seen[node.index()] = true;
  }
  graph_.order_ = std::move(order);
}

}  // namespace ebb
