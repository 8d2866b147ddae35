#include "ebb/rewrite/proof_matching.h"

#include <fmt/format.h>

#include "ebb/graph/print.h"

namespace ebb {

Matching::Matching(const Graph& original, const Graph& rewritten)
    : original_(original),
      rewritten_(rewritten),
      counterparts_(original.node_count()),
      origins_(rewritten.node_count()),
      scope_origins_(rewritten.scope_count()),
      type_origins_(rewritten.type_count()) {
  for (const NodeId node : original.nodes()) {
    const std::string_view name = original.name(node);
    // A rewriter that works on a copy of the graph keeps its ids.
    const bool kept = node.index() < rewritten.node_count() && rewritten.name(node) == name;
    const NodeId found = kept ? node : rewritten.find_node(name);
    counterparts_[node.index()] = found;
    if (found.valid()) origins_[found.index()] = node;
  }
  for (const ScopeId scope : rewritten.scopes()) {
    scope_origins_[scope.index()] = original.find_scope(rewritten.name(scope));
  }
}

std::optional<Difference> Matching::find_missing() const {
  const auto spelled_out = [](const Graph& graph, ScopeId scope) {
    const ScopeId parent = graph.parent(scope);
    return fmt::format("'{} {}{}'", graph.kind(scope) == ScopeKind::kFrame ? "frame" : "branch",
                       graph.name(scope),
                       parent.valid() ? fmt::format(" in {}", graph.name(parent)) : "");
  };
  for (const ScopeId scope : original_.scopes()) {
    const std::string line = spelled_out(original_, scope);
    const ScopeId found = rewritten_.find_scope(original_.name(scope));
    if (!found.valid() || spelled_out(rewritten_, found) != line) {
      return Difference{
          "S01", NodeId(), NodeId(),
          fmt::format("the rewritten graph has {} where the original has {}",
                      found.valid() ? spelled_out(rewritten_, found) : "no scope", line)};
    }
  }
  for (const ScopeId scope : rewritten_.scopes()) {
    if (origin(scope).valid()) continue;
    return Difference{"S02", NodeId(), NodeId(),
                      fmt::format("the original has no {}; rewriting adds no scopes",
                                  spelled_out(rewritten_, scope))};
  }
  for (const NodeId node : original_.order()) {
    if (counterpart(node).valid()) continue;
    return Difference{"S01", node, NodeId(),
                      fmt::format("the rewritten graph has no '{}', which the original has: {}",
                                  original_.name(node), quoted(original_, node))};
  }
  return {};
}

bool Matching::same_type(TensorId of_original, TensorId of_rewritten) {
  const TypeId wanted = original_.type_id(of_original);
  TypeId& known = type_origins_[rewritten_.type_id(of_rewritten).index()];
  // Equal types have equal ids within a graph, so a type has one origin at most.
  if (known.valid()) return known == wanted;
  if (original_.type(of_original) != rewritten_.type(of_rewritten)) return false;
  known = wanted;
  return true;
}

bool runs_inside(const Graph& graph, ScopeId inner, ScopeId outer) {
  while (inner != outer) {
    if (!inner.valid() || graph.kind(inner) == ScopeKind::kFrame) return false;
    inner = graph.parent(inner);
  }
  return true;
}

std::string quoted(const Graph& graph, NodeId node) {
  constexpr std::size_t kLongest = 300;
  std::string line = print(graph, node);
  if (line.size() > kLongest) {
    std::size_t end = kLongest;
    while ((static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
    line.resize(end);
    line += " ...";
  }
  return fmt::format("'{}'", line);
}

}  // namespace ebb
