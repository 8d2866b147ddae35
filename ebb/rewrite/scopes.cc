#include "ebb/rewrite/scopes.h"

#include <fmt/format.h>

namespace ebb {

bool runs_whenever(const Graph& graph, ScopeId outer, ScopeId inner) {
  while (inner != outer) {
    if (!inner.valid() || graph.kind(inner) == ScopeKind::kFrame) return false;
    inner = graph.parent(inner);
  }
  return true;
}

std::optional<ScopeId> inner_scope(const Graph& graph, ScopeId a, ScopeId b) {
  if (runs_whenever(graph, a, b)) return b;
  if (runs_whenever(graph, b, a)) return a;
  return std::nullopt;
}

std::string with_scope(const Graph& graph, NodeId node) {
  const ScopeId scope = graph.scope(node);
  if (!scope.valid()) return fmt::format("'{}' (outside every scope)", graph.name(node));
  const char* kind = graph.kind(scope) == ScopeKind::kFrame ? "frame" : "branch";
  return fmt::format("'{}' (in {} '{}')", graph.name(node), kind, graph.name(scope));
}

}  // namespace ebb
