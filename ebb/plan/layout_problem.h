// What lay_out works on: the buffers, less everything that does not matter.
//
// Sizes and offsets count alignments instead of bytes, so that nobody further on thinks of
// alignment. Times become sections: a new one begins where a buffer is born after another has died,
// so two buffers are alive together exactly when their sections meet. Empty buffers are left out,
// and those with fixed offsets stand apart. O(n log n).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/plan/layout.h"

namespace ebb {

struct LayoutItem {
  std::int64_t size = 0;    // > 0
  std::uint32_t first = 0;  // sections, both included
  std::uint32_t last = 0;
  std::uint32_t buffer = 0;  // whose item this is

  [[nodiscard]] std::int64_t length() const { return std::int64_t{last} - first + 1; }
};

struct FixedItem {
  LayoutItem item;
  std::int64_t offset = 0;
};

struct LayoutProblem {
  std::vector<LayoutItem> items;  // to be placed, in an order that depends on nothing but them
  std::vector<FixedItem> fixed;
  std::vector<std::int64_t> load;   // by section: the sum of sizes, fixed ones included
  std::vector<std::int64_t> floor;  // by section: the largest end of a fixed item
  bool room_below_floor = false;    // that fixed items leave free, in some section
  std::int64_t fixed_end = 0;       // the largest end of a buffer with a fixed offset
  std::int64_t bound = 0;
  std::int64_t target = 0;  // nothing smaller is looked for: the bound, or what is enough

  [[nodiscard]] std::uint32_t sections() const { return static_cast<std::uint32_t>(load.size()); }
};

// Checks what lay_out asks of its caller.
LayoutProblem make_layout_problem(std::span<const LayoutBuffer> buffers,
                                  const LayoutOptions& options);

}  // namespace ebb
