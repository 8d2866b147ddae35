// How many bytes a step may use, as people give it, and how many it uses now.
//
//   const Peak peak = find_peak(graph, costs);
//   const Result<Bytes> budget = parse_budget("60%", peak.bytes);
#pragma once

#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/costs.h"
#include "ebb/rewrite/lms_rewrite.h"

namespace ebb {

// "16GiB", "1.5GB", or "60%" of what the step uses as it is, rounded down. More than 100 % is a
// budget too: one that asks for nothing. kUsage: what is neither, nothing at all, less than that,
// and more than 2^60 bytes.
[[nodiscard]] Result<Bytes> parse_budget(std::string_view text, Bytes unconstrained);

// What to write before the % for a budget of at least `bytes`, in hundredths: "60.01".
std::string per_cent_for(Bytes bytes, Bytes unconstrained);

// What the lines hold at most (order/liveness.h), with the workspaces of the costs: a profile knows
// some that the text does not.
Peak find_peak(const Graph& graph, const StepCosts& costs);

}  // namespace ebb
