// "Which item of the lowest rank lives within these sections?", with items taken out one by one.
//
// A k-d tree over (first, last) in an array: each node knows the box around its items and the
// lowest rank that is still there, and a search leaves out what is outside or cannot win. O(n) to
// fill, O(log n) to take one out; a search is O(sqrt n) at worst and looks at some 20 to 50 nodes
// on training steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/plan/layout_problem.h"

namespace ebb {

class LifetimeIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  explicit LifetimeIndex(std::span<const LayoutItem> items);

  // All items are there again; `ranks` by item, each below kNone.
  void fill(std::span<const std::uint32_t> ranks);
  // The lowest rank among items with first <= their first and their last <= last; kNone without.
  [[nodiscard]] std::uint32_t find(std::uint32_t first, std::uint32_t last) const;
  void take_out(std::uint32_t item);

 private:
  struct Box {
    std::uint32_t min_first = kNone;
    std::uint32_t max_first = 0;
    std::uint32_t min_last = kNone;
    std::uint32_t max_last = 0;
  };

  void build(std::span<const LayoutItem> items, std::span<std::uint32_t> part, std::size_t node,
             bool by_first);
  void search(std::size_t node, std::uint32_t first, std::uint32_t last, std::uint32_t& best) const;

  // Node i has the children 2i and 2i+1; the root is 1, leaves begin at leaves_.
  std::size_t leaves_ = 1;
  std::vector<Box> boxes_;
  std::vector<std::uint32_t> lowest_;   // by node: the lowest rank there
  std::vector<std::uint32_t> item_at_;  // by leaf; kNone where there is none
  std::vector<std::uint32_t> leaf_of_;  // by item: its node
};

}  // namespace ebb
