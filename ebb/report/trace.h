// A timeline as a trace that ui.perfetto.dev (or chrome://tracing) opens.
//
//   write_file("step.json", to_trace(rewritten, simulate(rewritten, costs)));
//
// The trace-event format of Chrome, as JSON. Tracks: "compute", "to host" and "to device" with an
// event for each span, named by its node; "waiting" with an event for each stall, named by who
// waits, for which copy and why; and counters of the memory held on the device and on the host.
// Times are in microseconds, exact to the nanosecond. One event a line; equal timelines give equal
// bytes.
#pragma once

#include <string>

#include "ebb/graph/graph.h"
#include "ebb/plan/timeline.h"

namespace ebb {

// Of the graph whose timeline it is.
std::string to_trace(const Graph& graph, const Timeline& timeline);

}  // namespace ebb
