// What happened when in a step that was timed.
#pragma once

#include <span>

#include "ebb/exec/lanes.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/program.h"
#include "ebb/plan/timeline.h"

namespace ebb::exec {

// Spans and sums, for reports and traces beside the predicted ones; memory is not in it, because an
// arena is there all the time. A stall is the time between two operations in which the later one
// waited for a copy.
Timeline measured_timeline(const Graph& graph, const Program& program,
                           std::span<const Interval> times);

}  // namespace ebb::exec
