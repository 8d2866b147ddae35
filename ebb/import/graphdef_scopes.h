// Where TensorFlow's control flow puts each node: in which loop, and on which side of which
// conditionals.
//
// Enter leads into a frame and Exit out of it; a Switch leads into one side of what it asks. A node
// runs where all that it reads does, a Merge where one of its inputs always arrives: around a
// conditional all of whose sides come in. A Merge that some decision leaves without an input has a
// branch of its own, so that nothing outside it relies on it.
#pragma once

#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/edit.h"
#include "ebb/import/graphdef_node.h"
#include "ebb/import/graphdef_wiring.h"

namespace ebb {

// The scope of every node, by its number in the file; made in the graph that `edit` edits. Nodes
// that join two loops, or leave one in which they are not, are an error.
[[nodiscard]] Result<std::vector<ScopeId>> find_scopes(const GraphDefView& graphdef,
                                                       const Wiring& wiring, GraphEdit& edit);

}  // namespace ebb
