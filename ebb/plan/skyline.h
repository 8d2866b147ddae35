// Places items from the ground up, wherever the arena is lowest.
//
// Picture time from left to right and addresses upwards. What has been placed ends in a skyline:
// for each section, the height up to which the arena is spoken for. Again and again take the lowest
// stretch of it (the leftmost of several), and put there the most important item whose whole life
// falls into the stretch; when none does, lift the stretch to the lower one of its neighbours.
// Items settle in order of their offsets and leave few holes, which suits training steps: what
// lives longest comes to lie lowest, short lives above it. It is the best-fit heuristic for strip
// packing (Burke, Kendall, Whitwell, 2004), which others have used for neural networks (Sekiyama,
// Imamichi, Imai, Raymond, "Profile-guided memory optimization for deep neural networks", 2018),
// with a free choice of what is important.
//
// Room below a buffer with a fixed offset counts as taken; best_fit.h makes use of it. Each item is
// placed once and each lift removes a stretch: O(n) questions to the index.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ebb/plan/layout_problem.h"
#include "ebb/plan/lifetime_index.h"
#include "ebb/plan/placer.h"

namespace ebb {

class Skyline final : public Placer {
 public:
  explicit Skyline(const LayoutProblem& problem);  // must outlive this object

  std::optional<std::int64_t> place(std::span<const std::uint32_t> order, std::int64_t limit,
                                    Effort& effort, std::span<std::int64_t> offsets) override;

 private:
  // Where a stretch begins, and its height: what the heap holds, the lowest on top. Entries of
  // stretches that have changed stay there; their height is no longer that of the skyline.
  struct Entry {
    std::int64_t height = 0;
    std::uint32_t first = 0;
  };
  static constexpr std::int64_t kNoStretch = -1;

  void start();
  Entry take_lowest();
  void put_stretch(std::uint32_t first, std::uint32_t last, std::int64_t height);
  void join_stretch(std::uint32_t first, std::uint32_t last, std::int64_t height);
  void lift(std::uint32_t first);
  void push(Entry entry);

  const LayoutProblem& problem_;
  LifetimeIndex index_;
  std::vector<std::int64_t> height_;  // by section: of the stretch that begins there
  std::vector<std::uint32_t> last_;   // by section: the end of the stretch that begins there
  std::vector<std::uint32_t> first_;  // by section: the begin of the stretch that ends there
  std::vector<Entry> heap_;
  std::vector<std::uint32_t> ranks_;  // by item
};

}  // namespace ebb
