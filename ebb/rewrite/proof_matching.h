// Which node and scope of a rewritten graph is which of the original, by name, and whether what
// does not depend on operands (types, texts) is the same in both. Part of proof.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/rewrite/proof.h"

namespace ebb {

class Matching {
 public:
  // Both must outlive this object.
  Matching(const Graph& original, const Graph& rewritten);

  [[nodiscard]] const Graph& original() const { return original_; }
  [[nodiscard]] const Graph& rewritten() const { return rewritten_; }

  // The first node or scope of the original that the rewritten graph does not have, or a scope that
  // it has beside them. Nothing else here may be asked when there is one.
  [[nodiscard]] std::optional<Difference> find_missing() const;

  // In the rewritten graph.
  [[nodiscard]] NodeId counterpart(NodeId node) const { return counterparts_[node.index()]; }
  // In the original; not valid for what was added.
  [[nodiscard]] NodeId origin(NodeId node) const { return origins_[node.index()]; }
  [[nodiscard]] bool is_added(NodeId node) const { return !origin(node).valid(); }
  // In the original; not valid for what stands in none.
  [[nodiscard]] ScopeId origin(ScopeId scope) const {
    return scope.valid() ? scope_origins_[scope.index()] : ScopeId();
  }

  // Not const because it remembers which types it has compared.
  bool same_type(TensorId of_original, TensorId of_rewritten);

 private:
  const Graph& original_;
  const Graph& rewritten_;
  std::vector<NodeId> counterparts_;
  std::vector<NodeId> origins_;
  std::vector<ScopeId> scope_origins_;
  std::vector<TypeId> type_origins_;  // by type of the rewritten graph, where known
};

// Whether whatever stands in `inner` runs as often as, and only when, `outer` does: it is that
// scope or a branch in it, however deep, with no frame's border between.
bool runs_inside(const Graph& graph, ScopeId inner, ScopeId outer);

// A line in quotes, cut where it goes on for too long to be read.
std::string quoted(const Graph& graph, NodeId node);

}  // namespace ebb
