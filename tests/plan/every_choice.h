// The fastest way to run a small step within a budget, found by trying every choice: each forward
// value is kept, swapped with its two lines anywhere in its gap between forward and backward part,
// or computed again. What a planner finds is measured against this.
//
// Lines are timed by the simulator and laid out by the arena, as plans are; choices are applied by
// the rules. Two things are taken for granted and save most of the work: values that are not
// decided upon yet, kept, take no more time than whatever becomes of them; and the lower a swap-out
// stands, the less anybody waits. Exponential in the number of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"

namespace ebb {

// A step of so many forward values, of which the backward part reads most, the last first; a few
// are read by later layers, too. Nothing in it works in place.
Graph small_step(std::uint64_t seed, int values);

struct EveryChoiceOptions {
  // Otherwise swap-ins stand right above the first reader, or where once, twice, four times, ... as
  // much is computed until then as the copy takes.
  bool every_line = true;
  std::size_t limit = 1'000'000;  // of choices, after which it gives up
};

struct EveryChoice {
  bool is_better = false;  // than what was known
  Duration step{0};        // the fastest, or what was known
  std::string decisions;   // that lead there, one a line
  std::size_t looked_at = 0;
  bool is_complete = true;  // it has not given up
};

// What is faster than `known`, if anything.
EveryChoice try_every_choice(const Graph& step, const Device& device, Bytes budget, Duration known,
                             const EveryChoiceOptions& options = {});

}  // namespace ebb
