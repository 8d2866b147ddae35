// What the rules would say, asked before anything is chosen: a planner that is told "no" at the end
// has planned for nothing.
#pragma once

#include <string>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/plan/step_model.h"

namespace ebb {

// Why a value is not moved, by value; empty: it may be.
struct Refusals {
  std::vector<std::string> swap;
  std::vector<std::string> recompute;
};

// Asks about each value and each of its readers for itself, and takes from the model what is
// refused. (About readers together the rules may still say no.) O(uses), for most graphs.
Refusals ask_rules(const Graph& graph, StepModel& model);

}  // namespace ebb
