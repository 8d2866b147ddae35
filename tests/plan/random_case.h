// A random step, a budget and a machine to plan it for, and what has to be true of what comes out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"
#include "ebb/plan/plan.h"

namespace ebb {

struct PlanCase {
  Graph graph;
  Device device;
  PlanOptions options;

  // All of it, to be read and tried again.
  [[nodiscard]] std::string text() const;
};

// Budgets from below the floor to beyond what the step takes as it is. The same seed gives the same
// case on every machine.
PlanCase random_case(std::uint64_t seed);

// What is wrong with the plan, or with saying that there is none; empty when all is well.
std::string problem_of(const PlanCase& it);

// Whether a decision of the plan is of this rule.
bool decides(const PlanFile& plan, std::string_view rule);

}  // namespace ebb
