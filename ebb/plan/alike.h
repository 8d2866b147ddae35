// Gaps that look alike: the same place of blocks that a network repeats.
//
// What is good for one block mostly is for its neighbours. Search changes such gaps together, some
// or all of them, which by changes of one gap at a time would take luck at every step.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/plan/evaluate.h"

namespace ebb {

// Each gap once, with those of its kind in the order of lines: values of the same size, between
// operations that take the same time, and have operands, results and workspaces of the same sizes.
// O(n log n).
std::vector<std::vector<std::uint32_t>> find_alike(const StepModel& model,
                                                   const std::vector<Gap>& gaps);

}  // namespace ebb
