#include "ebb/rewrite/readers.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "ebb/graph/control_flow.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/repeatable.h"
#include "ebb/rewrite/scopes.h"

namespace ebb {
namespace {

bool is_in(const Graph& graph, TensorId tensor, StorageId storage) {
  return tensor.valid() && graph.storage(tensor) == storage;
}

bool makes_something_in(const Graph& graph, NodeId node, StorageId storage) {
  const auto results = graph.results(node);
  return std::any_of(results.begin(), results.end(),
                     [&](TensorId result) { return graph.storage(result) == storage; });
}

// The views between the source and the group's readers, each once, in line order.
std::vector<NodeId> views_between(const Rewriter& rewriter, TensorId source,
                                  const ReaderGroup& group) {
  const Graph& graph = rewriter.graph();
  const StorageId storage = graph.storage(source);
  std::vector<NodeId> views;
  std::unordered_set<NodeId> seen;
  const auto look_at = [&](NodeId reader) {
    for (const Operand& operand : graph.operands(reader)) {
      if (!is_in(graph, operand.tensor, storage) || operand.tensor == source) continue;
      const NodeId view = graph.producer(operand.tensor);
      if (seen.insert(view).second) views.push_back(view);
    }
  };
  for (const NodeId reader : group.readers) look_at(reader);
  // Views of views join while these are looked at.
  for (std::size_t looked_at = 0; looked_at < views.size();) look_at(views[looked_at++]);
  std::sort(views.begin(), views.end(),
            [&](NodeId a, NodeId b) { return rewriter.lines().is_before(a, b); });
  return views;
}

// Why the node does not read the source, or reads it in a way that cannot be moved.
Objection objection_to_operands(const Rewriter& rewriter, TensorId source, NodeId node) {
  const Graph& graph = rewriter.graph();
  const StorageId storage = graph.storage(source);
  bool reads = false;
  for (const Operand& operand : graph.operands(node)) {
    if (!is_in(graph, operand.tensor, storage)) continue;
    reads = true;
    if (graph.version(operand.tensor) == graph.version(source)) continue;
    return Reason{"R02", fmt::format("'{}' reads an older version, %{}", graph.name(node),
                                     graph.name(operand.tensor))};
  }
  if (reads) return std::nullopt;
  return Reason{"R06", fmt::format("'{}' does not read it", graph.name(node))};
}

Objection objection_to_reader(const Rewriter& rewriter, TensorId source, NodeId reader) {
  const Graph& graph = rewriter.graph();
  if (!graph.is_op(reader)) {
    return Reason{"R06",
                  fmt::format("'{}' is given from outside and reads nothing", graph.name(reader))};
  }
  if (const auto objection = objection_to_operands(rewriter, source, reader)) return objection;
  if (makes_something_in(graph, reader, graph.storage(source))) {
    return Reason{"R06", fmt::format("'{}' is a view of it; name the readers of the view",
                                     graph.name(reader))};
  }
  if (graph.op(reader) == kSwapOut || graph.op(reader) == kEncode) {
    return Reason{"R04", fmt::format("'{}' is on its way to the host; a copy does not read a copy",
                                     graph.name(reader))};
  }
  return std::nullopt;
}

// A view can be remade on the copy when nothing but its operands decides what it is.
Objection objection_to_view(const Rewriter& rewriter, TensorId source, NodeId view,
                            ScopeId copy_scope) {
  const Graph& graph = rewriter.graph();
  const auto because = [&](std::string_view why) {
    return Reason{"R07",
                  fmt::format("it is read through '{}', which cannot be remade on the copy: {}",
                              graph.name(view), why)};
  };
  if (!graph.is_op(view)) return because("it is given from outside");
  if (graph.updates_something(view)) return because("it updates an operand");
  const auto results = graph.results(view);
  const bool computes = std::any_of(results.begin(), results.end(), [&](TensorId result) {
    return graph.root(graph.storage(result)) == result;
  });
  if (computes) return because("it makes something else as well");
  if (const auto objection = objection_to_clone(rewriter, view)) return because(objection->text);
  for (const Operand& operand : graph.operands(view)) {
    if (!operand.tensor.valid()) continue;
    if (const NodeId updater = rewriter.updater(operand.tensor); updater.valid()) {
      return because(fmt::format("'{}' updates %{}, which it reads too", graph.name(updater),
                                 graph.name(operand.tensor)));
    }
  }
  // Between the elements of what an operation has just made there is nothing yet.
  const bool is_fresh =
      graph.origin(graph.storage(source)) == NodeKind::kOp && graph.version(source) == 0;
  if (!is_fresh && may_have_gaps(graph.type(source))) {
    return because("it may look between the elements, where a copy has nothing");
  }
  if (!inner_scope(graph, graph.scope(view), copy_scope)) {
    return because("it stands in another scope");
  }
  return std::nullopt;
}

Objection objection_to_trigger(const Rewriter& rewriter, TensorId source,
                               const ReaderGroup& group) {
  const Graph& graph = rewriter.graph();
  const NodeId trigger = group.trigger;
  if (!graph.is_op(trigger)) {
    return Reason{"R08", fmt::format("'{}' is given from outside; a trigger is an operation",
                                     graph.name(trigger))};
  }
  if (leads_elsewhere(graph, trigger)) {
    return Reason{"R11", fmt::format("who waits for '{}' waits inside a loop or in its next round",
                                     graph.name(trigger))};
  }
  for (const NodeId reader : group.readers) {
    if (reader == trigger) {
      return Reason{"R09", fmt::format("'{}' cannot wait for itself; name an earlier trigger",
                                       graph.name(reader))};
    }
    if (rewriter.waits(reader, trigger)) continue;
    if (rewriter.waits(trigger, reader)) {
      return Reason{"R09", fmt::format("'{}' runs after '{}', which would wait for it",
                                       graph.name(trigger), graph.name(reader))};
    }
    return Reason{
        "R10", fmt::format("'{}' does not wait for '{}'", graph.name(reader), graph.name(trigger))};
  }
  const NodeId maker = rewriter.version_maker(source);
  if (makes_elsewhere(graph, maker)) {
    return Reason{
        "R11", fmt::format("'{}' leads into a loop or a branch, and copies would stand outside it",
                           graph.name(maker))};
  }
  const auto scope = inner_scope(graph, graph.scope(maker), graph.scope(trigger));
  if (!scope) {
    return Reason{
        "R11",
        fmt::format("{} does not always run with {}; nothing crosses a frame or leaves a branch",
                    with_scope(graph, trigger), with_scope(graph, maker))};
  }
  for (const NodeId reader : group.readers) {
    if (runs_whenever(graph, *scope, graph.scope(reader))) continue;
    const NodeId inner = *scope == graph.scope(trigger) ? trigger : maker;
    return Reason{
        "R11",
        fmt::format("{} does not always run with {}; nothing crosses a frame or leaves a branch",
                    with_scope(graph, reader), with_scope(graph, inner))};
  }
  return std::nullopt;
}

Objection objection_to_repetition(const Graph& graph, std::span<const ReaderGroup> groups) {
  std::vector<NodeId> all;
  for (const ReaderGroup& group : groups) {
    if (group.readers.empty()) return Reason{"R06", "a group names no reader"};
    all.insert(all.end(), group.readers.begin(), group.readers.end());
  }
  if (all.empty()) return Reason{"R06", "no reader is named"};
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice == all.end()) return std::nullopt;
  return Reason{"R06",
                fmt::format("'{}' is named twice; a reader is in one group", graph.name(*twice))};
}

// The last of the lines that the view's clone must stand below.
NodeId last_needed(const Rewriter& rewriter, NodeId view, NodeId copy_maker, StorageId storage) {
  const Graph& graph = rewriter.graph();
  NodeId last = copy_maker;
  const auto need = [&](NodeId node) {
    if (rewriter.lines().is_before(last, node)) last = node;
  };
  for (const Operand& operand : graph.operands(view)) {
    if (operand.tensor.valid() && !is_in(graph, operand.tensor, storage)) {
      need(graph.producer(operand.tensor));
    }
  }
  graph.for_each_scalar_read(view, [&](ScalarId scalar) { need(graph.producer(scalar)); });
  for (const NodeId control : graph.controls(view)) need(control);
  return last;
}

}  // namespace

Error refused(std::string_view rule, std::string_view what, const Reason& reason) {
  return Error{.kind = ErrorKind::kRefused,
               .code = std::string(reason.code),
               .message = fmt::format("rule {} does not apply to {}: {}", rule, what, reason.text),
               .place = {}};
}

tl::expected<TensorId, Reason> find_source(const Rewriter& rewriter, TensorId tensor) {
  const Graph& graph = rewriter.graph();
  const StorageId storage = graph.storage(tensor);
  const TensorId root = graph.root(storage);
  const NodeKind origin = graph.origin(storage);
  if (origin == NodeKind::kParam || origin == NodeKind::kConst) {
    return tl::make_unexpected(Reason{
        "R01",
        fmt::format("its bytes are those of the {} %{}, which stays where it is",
                    origin == NodeKind::kParam ? "variable" : "constant", graph.name(root))});
  }
  if (const NodeId updater = rewriter.updater(tensor); updater.valid()) {
    return tl::make_unexpected(
        Reason{"R02", fmt::format("'{}' updates it afterwards; name what '{}' makes",
                                  graph.name(updater), graph.name(updater))});
  }
  if (graph.version(tensor) == 0) return root;
  const NodeId maker = rewriter.version_maker(tensor);
  for (const TensorId result : graph.results(maker)) {
    const auto bytes = extent(graph.type(result));  // not known: it may be a part
    const bool is_all = graph.storage(result) == storage && bytes && bytes == graph.size(storage);
    if (is_all) return result;
  }
  return tl::make_unexpected(Reason{
      "R02", graph.size(storage)
                 ? fmt::format("'{}' updates parts of %{}, so what it makes is not all of it",
                               graph.name(maker), graph.name(root))
                 : fmt::format("'{}' may have updated a part of %{} only, whose size is not known",
                               graph.name(maker), graph.name(root))});
}

Objection find_objection(const Rewriter& rewriter, TensorId source,
                         std::span<const ReaderGroup> groups, Totals& growth) {
  const Graph& graph = rewriter.graph();
  if (const auto objection = objection_to_repetition(graph, groups)) return objection;
  for (const ReaderGroup& group : groups) {
    for (const NodeId reader : group.readers) {
      if (const auto objection = objection_to_reader(rewriter, source, reader)) return objection;
    }
    if (const auto objection = objection_to_trigger(rewriter, source, group)) return objection;
    const ScopeId scope = scope_of_copy(rewriter, source, group);
    for (const NodeId view : views_between(rewriter, source, group)) {
      if (const auto objection = objection_to_view(rewriter, source, view, scope)) {
        return objection;
      }
      growth.add_costs(graph, view);
    }
  }
  return std::nullopt;
}

Objection objection_to_growth(const Rewriter& rewriter, const Totals& growth) {
  if (rewriter.totals().has_room_for(growth)) return std::nullopt;
  return Reason{"R13",
                "with it, all bytes or all durations of this graph would add up to more than 2^62"};
}

ScopeId scope_of_copy(const Rewriter& rewriter, TensorId source, const ReaderGroup& group) {
  const Graph& graph = rewriter.graph();
  return inner_scope(graph, graph.scope(rewriter.version_maker(source)), graph.scope(group.trigger))
      .value_or(ScopeId());
}

NodeId first_reader(const Rewriter& rewriter, const ReaderGroup& group) {
  return *std::min_element(group.readers.begin(), group.readers.end(),
                           [&](NodeId a, NodeId b) { return rewriter.lines().is_before(a, b); });
}

void move_readers(Rewriter& rewriter, TensorId source, TensorId copy, const ReaderGroup& group,
                  std::string_view suffix) {
  const Graph& graph = rewriter.graph();
  const StorageId storage = graph.storage(source);
  const NodeId copy_maker = graph.producer(copy);
  const NodeId first = first_reader(rewriter, group);
  std::unordered_map<TensorId, TensorId> instead = {{source, copy}};
  // Views are remade in line order; each is below those it needs.
  NodeId last_clone = copy_maker;
  for (const NodeId view : views_between(rewriter, source, group)) {
    std::vector<Operand> operands(graph.operands(view).begin(), graph.operands(view).end());
    for (Operand& operand : operands) {
      if (is_in(graph, operand.tensor, storage)) operand.tensor = instead.at(operand.tensor);
    }
    const NodeId last = last_needed(rewriter, view, last_clone, storage);
    // Something it needs may stand below a first reader that does not need the view.
    const NodeId limit = rewriter.lines().is_before(last, first) ? first : view;
    const NodeId clone = rewriter.add_clone(view, operands, Rewriter::Place::below(last, limit));
    rewriter.set_scope(
        clone, inner_scope(graph, graph.scope(view), graph.scope(copy_maker)).value_or(ScopeId()));
    for (const TensorId result : graph.results(view)) {
      const bool here = graph.storage(result) == storage;
      const TensorId shares = here ? copy : graph.root(graph.storage(result));
      const TensorId remade =
          rewriter.add_shared_result(clone, result, suffix, shares, graph.offset(result));
      if (here) instead.emplace(result, remade);
    }
    last_clone = clone;
  }
  for (const NodeId reader : group.readers) {
    for (std::size_t i = 0; i < graph.operands(reader).size(); ++i) {
      const TensorId tensor = graph.operands(reader)[i].tensor;
      if (is_in(graph, tensor, storage)) rewriter.move_edge(reader, i, instead.at(tensor));
    }
  }
}

Objection objection_to_clone(const Rewriter& rewriter, NodeId original) {
  const Graph& graph = rewriter.graph();
  if (graph.effect(original) == Effect::kRandom) {
    return Reason{"R05", fmt::format("'{}' is random and runs once", graph.name(original))};
  }
  if (graph.effect(original) == Effect::kEffect) {
    return Reason{"R05", fmt::format("'{}' has an effect and runs once", graph.name(original))};
  }
  if (const TensorId handle = find_handle(graph, original); handle.valid()) {
    return Reason{"R05",
                  fmt::format("'{}' reads through the handle %{}, behind which anything may change",
                              graph.name(original), graph.name(handle))};
  }
  if (steers_control_flow(graph, original)) {
    return Reason{"R05", fmt::format("'{}' steers control flow, of which there is one",
                                     graph.name(original))};
  }
  return std::nullopt;
}

}  // namespace ebb
