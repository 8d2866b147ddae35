// Where TensorFlow's control flow puts each node: in which loop, and on which side of which
// conditionals.
//
// Enter leads into a frame and Exit out of it; a Switch leads into one side of its predicate, and a
// Merge out of what its inputs do not have in common. A node that reads from several sides runs
// where all of them do. Sides are sets of (predicate, side): for each set there is one scope, which
// stands in the scope of the set without its newest condition.
#pragma once

#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/edit.h"
#include "ebb/import/graphdef_node.h"
#include "ebb/import/graphdef_wiring.h"

namespace ebb {

// The scope of every node, by its number in the file; made in the graph that `edit` edits. Nodes
// that join two loops are an error.
[[nodiscard]] Result<std::vector<ScopeId>> find_scopes(const GraphDefView& graphdef,
                                                       const Wiring& wiring, GraphEdit& edit);

}  // namespace ebb
