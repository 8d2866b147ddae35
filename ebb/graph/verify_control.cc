// V16 and V17: where control edges may go.
#include "ebb/graph/verify_checks.h"

namespace ebb {

void check_variables_wait_for_nobody(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    if (graph.kind(node) != NodeKind::kParam || graph.controls(node).empty()) continue;
    findings.add(node,
                 "the variable '{}' waits for '{}'; a variable comes first and waits for nobody",
                 graph.name(node), graph.name(graph.controls(node).front()));
  }
}

// An edge may go from a scope to itself or into a branch, however deep: whoever stands further out
// runs whenever the inner one does. It may not leave a branch, whose side may not run, nor cross
// the border of a frame, whose inside runs another number of times than its outside.
void check_control_stays_in_its_scope(const Graph& graph, Findings& findings) {
  if (graph.scope_count() == 0) return;
  const auto describe = [&](ScopeId scope) {
    if (!scope.valid()) return std::string("outside every scope");
    const char* kind = graph[scope].kind == Scope::Kind::kFrame ? "frame" : "branch";
    return fmt::format("in {} '{}'", kind, graph.name(scope));
  };
  for (const NodeId node : graph.nodes()) {
    for (const NodeId control : graph.controls(node)) {
      const ScopeId from = graph.scope(control);
      ScopeId at = graph.scope(node);
      while (at != from && at.valid() && graph[at].kind == Scope::Kind::kBranch) {
        at = graph[at].parent;
      }
      if (at == from) continue;
      findings.add(
          node, "'{}' ({}) waits for '{}' ({}); control does not leave a branch or cross a frame",
          graph.name(node), describe(graph.scope(node)), graph.name(control), describe(from));
    }
  }
}

}  // namespace ebb
