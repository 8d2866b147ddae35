#include "ebb/rewrite/scopes.h"

#include <algorithm>

#include <fmt/format.h>

namespace ebb {
namespace {

// The frame around it that is nearest; not valid outside every frame.
ScopeId frame_of(const Graph& graph, NodeId node) {
  ScopeId scope = graph.scope(node);
  while (scope.valid() && graph.kind(scope) != ScopeKind::kFrame) scope = graph.parent(scope);
  return scope;
}

bool is_within(const Graph& graph, ScopeId inner, ScopeId outer) {
  while (inner.valid() && inner != outer) inner = graph.parent(inner);
  return inner == outer;
}

}  // namespace

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

bool takes_out_of_frame(const Graph& graph, NodeId node) {
  const ScopeId here = frame_of(graph, node);
  const auto operands = graph.operands(node);
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    if (!operand.tensor.valid()) return false;
    const ScopeId from = frame_of(graph, graph.producer(operand.tensor));
    return from != here && is_within(graph, from, here);
  });
}

std::string with_scope(const Graph& graph, NodeId node) {
  const ScopeId scope = graph.scope(node);
  if (!scope.valid()) return fmt::format("'{}' (outside every scope)", graph.name(node));
  const char* kind = graph.kind(scope) == ScopeKind::kFrame ? "frame" : "branch";
  return fmt::format("'{}' (in {} '{}')", graph.name(node), kind, graph.name(scope));
}

}  // namespace ebb
