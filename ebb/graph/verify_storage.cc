// V07 to V12: views, updates and the bytes behind them.
#include <algorithm>

#include "ebb/graph/print.h"
#include "ebb/graph/verify_checks.h"

namespace ebb {
namespace {

// A tensor among a node's operands or results, by where it lies. Sorted lists of these are searched
// instead of walking all operands for each result: optimizers update thousands of tensors at once.
struct Spot {
  StorageId storage;
  bool is_read = false;  // of operands: updates come first
  Bytes offset;
  TypeId type;
  TensorId tensor;

  friend auto operator<=>(const Spot&, const Spot&) = default;
};

std::vector<Spot> operand_spots(const Graph& graph, NodeId node) {
  std::vector<Spot> spots;
  for (const Operand& operand : graph.operands(node)) {
    const TensorId t = operand.tensor;
    if (!t.valid()) continue;
    spots.push_back(
        {graph.storage(t), operand.access == Access::kRead, graph.offset(t), graph.type_id(t), t});
  }
  std::sort(spots.begin(), spots.end());
  return spots;
}

// What stands before every spot of a storage, or of a place in it, or of a type there.
Spot first_in(StorageId storage, Bytes offset = {}, TypeId type = TypeId(0)) {
  return {storage, false, offset, type, TensorId(0)};
}

// The first spot not before the wanted one, if it `matches`.
template <class Matches>
const Spot* find_spot(const std::vector<Spot>& sorted, const Spot& wanted, Matches&& matches) {
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), wanted);
  return found != sorted.end() && matches(*found) ? &*found : nullptr;
}

bool is_root(const Graph& graph, TensorId tensor) {
  return graph.root(graph.storage(tensor)) == tensor;
}

bool shares_bytes(const Graph& graph, NodeId node) {
  const auto results = graph.results(node);
  return std::any_of(results.begin(), results.end(),
                     [&](TensorId result) { return !is_root(graph, result); });
}

}  // namespace

void check_shared_bytes_come_from_an_operand(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    if (!shares_bytes(graph, node)) continue;
    const std::vector<Spot> operands = operand_spots(graph, node);
    for (const TensorId tensor : graph.results(node)) {
      if (is_root(graph, tensor)) continue;
      const StorageId storage = graph.storage(tensor);
      const TensorId root = graph.root(storage);
      if (graph.is_op(node)) {
        const auto in_storage = [&](const Spot& spot) { return spot.storage == storage; };
        if (find_spot(operands, first_in(storage), in_storage) != nullptr) continue;
        findings.add(node, "%{} shares the bytes of %{}, but '{}' has no operand in them",
                     graph.name(tensor), graph.name(root), graph.name(node));
      } else if (graph.version(tensor) != 0) {
        findings.add(
            node,
            "%{} is given from outside and shares the bytes of %{}, but of a later version; "
            "make it a view: '%{}: ... ~ %{} = aten::view(...)'",
            graph.name(tensor), graph.name(root), graph.name(tensor), graph.name(root));
      } else if (graph.kind(node) != graph.origin(storage)) {
        findings.add(node,
                     "%{} shares the bytes of %{}, but they are not of one kind: '{}' and '{}'",
                     graph.name(tensor), graph.name(root), print(graph, node),
                     print(graph, graph.producer(root)));
      }
    }
  }
}

void check_views_lie_inside_their_storage(const Graph& graph, Findings& findings) {
  for (const TensorId tensor : graph.tensors()) {
    if (is_root(graph, tensor)) continue;
    const StorageId storage = graph.storage(tensor);
    const TensorId root = graph.root(storage);
    const NodeId node = graph.producer(tensor);
    if (graph.type(tensor).residence != graph.residence(storage)) {
      findings.add(node, "%{} shares the bytes of %{}, but one is on the host and one is not",
                   graph.name(tensor), graph.name(root));
    }
    const auto size = graph.size(storage);
    const auto length = extent(graph.type(tensor));
    const std::int64_t offset = graph.offset(tensor).count;
    if (offset < 0 || (size && length && offset > size->count - length->count)) {
      findings.add(node, "%{} spans bytes {} to {} of %{}, which has {}", graph.name(tensor),
                   offset,
                   length ? fmt::format("{}", static_cast<std::uint64_t>(offset) +
                                                  static_cast<std::uint64_t>(length->count))
                          : "?",
                   graph.name(root), size ? fmt::format("{}", size->count) : "an unknown number");
    }
  }
}

void check_updates_make_the_next_version(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    if (!graph.updates_something(node)) continue;
    std::vector<Spot> results;
    for (const TensorId t : graph.results(node)) {
      results.push_back({graph.storage(t), false, graph.offset(t), graph.type_id(t), t});
    }
    std::sort(results.begin(), results.end());
    for (const Operand& operand : graph.operands(node)) {
      if (operand.access != Access::kUpdate) continue;
      if (!operand.tensor.valid()) {
        findings.add(node, "'{}' updates an absent operand", graph.name(node));
        continue;
      }
      const StorageId storage = graph.storage(operand.tensor);
      const Bytes offset = graph.offset(operand.tensor);
      const auto in_place = [&](const Spot& spot) {
        return spot.storage == storage && spot.offset == offset;
      };
      if (find_spot(results, first_in(storage, offset), in_place) != nullptr) continue;
      const std::string_view name = graph.name(operand.tensor);
      findings.add(node,
                   "'{}' updates %{}, but no result of it is the next version; add one like "
                   "'%{}.1: {} ~ %{}{}'",
                   graph.name(node), name, name, to_text(graph.type(operand.tensor)),
                   graph.name(graph.root(storage)),
                   offset.count == 0 ? "" : " + " + to_text(offset));
    }
  }
}

void check_updates_keep_the_type(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    if (!graph.updates_something(node)) continue;
    const std::vector<Spot> operands = operand_spots(graph, node);
    for (const TensorId result : graph.results(node)) {
      const StorageId storage = graph.storage(result);
      const Bytes offset = graph.offset(result);
      const TypeId type = graph.type_id(result);
      const auto is_updated = [&](const Spot& spot) {
        return spot.storage == storage && !spot.is_read;
      };
      const Spot* updated = find_spot(operands, first_in(storage), is_updated);
      if (updated == nullptr) continue;  // a new storage, or one that is only read
      const auto is_same = [&](const Spot& spot) {
        return is_updated(spot) && spot.offset == offset && spot.type == type;
      };
      if (find_spot(operands, first_in(storage, offset, type), is_same) != nullptr) continue;
      findings.add(node,
                   "'{}' updates %{}: {} at byte {}, but makes %{}: {} at byte {}; an update keeps "
                   "the type and the place",
                   graph.name(node), graph.name(updated->tensor),
                   to_text(graph.type(updated->tensor)), updated->offset.count, graph.name(result),
                   to_text(graph.type(result)), offset.count);
    }
  }
}

// Two operands of one operation that are overwritten may lie in one storage, not in the same bytes:
// nobody could say which of the two is there afterwards. Unknown sizes and strides, which
// may interleave, are trusted.
void check_no_byte_is_updated_twice_at_once(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    if (!graph.updates_something(node)) continue;
    std::vector<Spot> spots = operand_spots(graph, node);
    std::erase_if(spots, [](const Spot& spot) { return spot.is_read; });
    for (std::size_t i = 1; i < spots.size(); ++i) {
      const Spot& a = spots[i - 1];
      const Spot& b = spots[i];
      if (a.storage != b.storage) continue;
      const auto length = extent(graph.type(a.tensor));
      const bool dense = graph.type(a.tensor).strides.empty();
      const bool apart = !dense || !length || a.offset + *length <= b.offset;
      if (apart && a.tensor != b.tensor) continue;
      findings.add(node, "'{}' updates %{} and %{} at once, which share bytes", graph.name(node),
                   graph.name(a.tensor), graph.name(b.tensor));
    }
  }
}

void check_constants_are_never_updated(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    for (const Operand& operand : graph.operands(node)) {
      if (operand.access != Access::kUpdate) continue;
      const StorageId storage = graph.storage(operand.tensor);
      if (graph.origin(storage) != NodeKind::kConst) continue;
      findings.add(node, "'{}' updates the constant %{}; make it a param", graph.name(node),
                   graph.name(graph.root(storage)));
    }
  }
}

}  // namespace ebb
