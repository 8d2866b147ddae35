// Which values to keep, to swap and to compute again, so that a step fits into a budget and takes
// little more time: choices for evaluate.h.
//
// First by greed: while some line holds more than the budget, of the gaps around that line the one
// is taken that costs the least for a byte. Computing again costs what its operations take. What a
// swap costs depends on what else is on the link, so the price of the link is a guess: nothing, all
// of a copy's time, and values between are tried, and the best of the steps that come out is kept.
// Then what need not be absent is kept. Then by search: choices are changed here and there, or for
// many blocks that are alike at once (alike.h), made to fit again, and kept when the step becomes
// faster.
//
// What fits is judged by what lines hold; offsets in one arena may need more. Who has seen that
// they do asks again, with `start`: then less is allowed on the lines, by 1 to 19 %, and choices
// that would be the best are laid out (layout.h, a fixed effort each) and are only kept if that
// fits into `room`. Laying out every choice that is simulated would cost a hundred times what
// simulating does. That the rewritten graph has these very offsets is for the caller to see.
//
// Deterministic for a seed and a number of evaluations.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "ebb/plan/evaluate.h"

namespace ebb {

struct PlannerOptions {
  Bytes budget;
  Bytes host_budget = kNoLimit;
  Clock clock = Clock::kCompleted;
  // How many steps to simulate in search; not given: as many as take about a second.
  std::optional<std::uint32_t> evaluations = std::nullopt;
  std::uint32_t effort = 1;  // multiplies `evaluations`
  std::uint64_t seed = 1;
  // What was chosen before, of which the lines fitted and the offsets in an arena of the size of
  // the room did not. What is chosen now has offsets there, with this alignment, if anything is.
  const Choices* start = nullptr;
  Bytes room = kNoLimit;
  Bytes alignment{64};
  std::function<void(std::uint32_t done, std::uint32_t of, Duration best)> progress = nullptr;
  // Asked where there is a choice, which is then the answer.
  std::function<bool()> is_out_of_time = nullptr;
};

struct PlannerResult {
  bool fits = false;
  Choices choices;  // where nothing fits, what takes the least memory of all that was found
  Bytes budget;     // with which these are to be evaluated: the one asked for, or less, so that
                    // offsets find room
  Duration total{};
  Bytes peak;
  std::uint32_t evaluations = 0;
};

PlannerResult choose(const StepModel& model, const std::vector<Gap>& gaps, const Link& link,
                     const PlannerOptions& options);

}  // namespace ebb
