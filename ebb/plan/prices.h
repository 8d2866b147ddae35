// What it costs to let a byte go for the length of a gap: a guess, for greed (planner.h).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "ebb/plan/evaluate.h"

namespace ebb {

class Prices {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // All of these must outlive this object.
  Prices(const StepModel& model, const std::vector<Gap>& gaps, const Link& link)
      : model_(model), gaps_(gaps), link_(link), gap_starts_(index_gaps(model, gaps)) {}

  // Of a byte, in nanoseconds, if all of a copy's time counted; kNever: it cannot be swapped.
  [[nodiscard]] double of_swapping(std::uint32_t gap) const;
  // The same for computing it again, given what else is chosen: what its operations take, for as
  // many bytes as are not kept for them instead.
  [[nodiscard]] double of_computing_again(const Choices& choices, std::uint32_t gap) const;

 private:
  // What it takes to compute a value again: how long, and how many bytes are kept for it.
  struct Chain {
    double takes = 0;
    double kept = 0;
  };
  enum class Presence : std::uint8_t { kThere, kKept, kComputedAgain };

  [[nodiscard]] Chain guess_chain(const Choices& choices, std::uint32_t value,
                                  std::uint32_t operation, int depth) const;
  // Of the value, for an operation that computes something again; kNone: at the end.
  [[nodiscard]] Presence how_it_is_there(const Choices& choices, std::uint32_t value,
                                         std::uint32_t operation) const;

  const StepModel& model_;
  const std::vector<Gap>& gaps_;
  const Link& link_;
  std::vector<std::uint32_t> gap_starts_;
};

}  // namespace ebb
