// V18 and V19: where control edges may go.
#include "ebb/graph/control_flow.h"
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

namespace {

// Where each scope stands among the others: numbers such that a scope's inside is one interval.
class ScopeTree {
 public:
  explicit ScopeTree(const Graph& graph) : places_(graph.scope_count()) {
    std::vector<std::vector<ScopeId>> inside(graph.scope_count());
    std::vector<ScopeId> open;
    for (const ScopeId scope : graph.scopes()) {
      const ScopeId parent = graph.parent(scope);
      Place& place = places_[scope.index()];
      // Parents stand before their children.
      place.frame = graph.kind(scope) == ScopeKind::kFrame ? scope : frame(parent);
      if (parent.valid()) inside[parent.index()].push_back(scope);
    }
    std::uint32_t counter = 0;
    for (const ScopeId scope : graph.scopes()) {
      if (!graph.parent(scope).valid()) open.push_back(scope);
      while (!open.empty()) {
        const ScopeId at = open.back();
        Place& place = places_[at.index()];
        if (place.first == kUnnumbered) {
          place.first = counter++;
          open.insert(open.end(), inside[at.index()].begin(), inside[at.index()].end());
        } else {
          place.last = counter - 1;
          open.pop_back();
        }
      }
    }
  }

  // The innermost frame around, or that is, the scope; not valid outside every frame.
  [[nodiscard]] ScopeId frame(ScopeId scope) const {
    return scope.valid() ? places_[scope.index()].frame : ScopeId();
  }
  // Whether `inner` is `outer` or stands in it; everything stands outside every scope.
  [[nodiscard]] bool contains(ScopeId outer, ScopeId inner) const {
    if (!outer.valid()) return true;
    if (!inner.valid()) return false;
    const std::uint32_t number = places_[inner.index()].first;
    return places_[outer.index()].first <= number && number <= places_[outer.index()].last;
  }

 private:
  static constexpr std::uint32_t kUnnumbered = 0xFFFFFFFF;
  struct Place {
    ScopeId frame;
    std::uint32_t first = kUnnumbered;
    std::uint32_t last = 0;
  };
  std::vector<Place> places_;
};

}  // namespace

// An edge may go from a scope to itself or into a branch, however deep: whoever stands further out
// runs whenever the inner one does. It may not leave a branch, whose side may not run, nor cross
// the border of a frame, whose inside runs another number of times than its outside. Who joins
// branches runs whichever of them did, and may wait for nodes on all of their sides.
void check_control_stays_in_its_scope(const Graph& graph, Findings& findings) {
  if (graph.scope_count() == 0) return;
  const ScopeTree tree(graph);
  const auto describe = [&](ScopeId scope) {
    if (!scope.valid()) return std::string("outside every scope");
    const char* kind = graph.kind(scope) == ScopeKind::kFrame ? "frame" : "branch";
    return fmt::format("in {} '{}'", kind, graph.name(scope));
  };
  for (const NodeId node : graph.nodes()) {
    const ScopeId to = graph.scope(node);
    for (const NodeId control : graph.controls(node)) {
      const ScopeId from = graph.scope(control);
      if (tree.frame(from) == tree.frame(to) &&
          (tree.contains(from, to) || joins_branches(graph, node))) {
        continue;
      }
      findings.add(
          node, "'{}' ({}) waits for '{}' ({}); control does not leave a branch or cross a frame",
          graph.name(node), describe(to), graph.name(control), describe(from));
    }
  }
}

}  // namespace ebb
