// Where control flow lets new nodes stand: control edges and the tensors of new nodes never cross a
// frame's border nor leave a branch (V19).
#pragma once

#include <optional>
#include <string>

#include "ebb/graph/graph.h"

namespace ebb {

// Whether `inner` is `outer` or a branch in it, however deep, in the same frame: who stands in
// `outer` runs whenever who stands in `inner` does.
bool runs_whenever(const Graph& graph, ScopeId outer, ScopeId inner);

// The inner one of two scopes, one of which runs whenever the other does; nullopt when neither.
std::optional<ScopeId> inner_scope(const Graph& graph, ScopeId a, ScopeId b);

// "'a' (in branch 'then')".
std::string with_scope(const Graph& graph, NodeId node);

}  // namespace ebb
