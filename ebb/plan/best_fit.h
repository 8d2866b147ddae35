// Places items one after the other, the most important first, each into the smallest hole that
// holds it, or on top of everything when there is none.
//
// The way of XLA's heap simulator and of TensorFlow Lite's greedy planner. Unlike the skyline it
// uses the room below buffers with fixed offsets, and for that it is here: on training steps it
// ends higher and takes ten times as long. An item costs as much as the lists it meets are long
// (occupancy.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ebb/plan/layout_problem.h"
#include "ebb/plan/occupancy.h"
#include "ebb/plan/placer.h"

namespace ebb {

class BestFit final : public Placer {
 public:
  explicit BestFit(const LayoutProblem& problem);  // must outlive this object

  std::optional<std::int64_t> place(std::span<const std::uint32_t> order, std::int64_t limit,
                                    Effort& effort, std::span<std::int64_t> offsets) override;

 private:
  std::int64_t find_hole(const LayoutItem& item);

  const LayoutProblem& problem_;
  Occupancy occupancy_;
  std::vector<AddressRange> taken_;
};

}  // namespace ebb
