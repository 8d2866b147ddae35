// Who waits for whom, so that lanes may run side by side.
#pragma once

#include "ebb/graph/graph.h"
#include "ebb/lower/program.h"

namespace ebb {

// Fills in the waits of a program that has everything else. An instruction waits for those above it
// in other lanes that touch the same bytes, where one of the two writes, and for those that the
// graph has it follow by control edges; of these, only for the ones that are not done anyhow when
// others are. O(n log n).
void add_waits(const Graph& graph, Program& program);

}  // namespace ebb
