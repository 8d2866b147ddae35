#include "ebb/plan/lifetime_index.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace ebb {

LifetimeIndex::LifetimeIndex(std::span<const LayoutItem> items)
    : leaves_(std::bit_ceil(std::max<std::size_t>(items.size(), 1))),
      boxes_(2 * leaves_),
      lowest_(2 * leaves_, kNone),
      item_at_(leaves_, kNone),
      leaf_of_(items.size()) {
  std::vector<std::uint32_t> all(items.size());
  std::iota(all.begin(), all.end(), 0U);
  build(items, all, 1, true);
}

// Halves the part at the median, by turns of the first and of the last section. Halves differ by
// one item at most, so that each leaf gets one item or none.
void LifetimeIndex::build(std::span<const LayoutItem> items, std::span<std::uint32_t> part,
                          std::size_t node, bool by_first) {
  if (part.empty()) return;
  Box& box = boxes_[node];
  for (const std::uint32_t i : part) {
    box.min_first = std::min(box.min_first, items[i].first);
    box.max_first = std::max(box.max_first, items[i].first);
    box.min_last = std::min(box.min_last, items[i].last);
    box.max_last = std::max(box.max_last, items[i].last);
  }
  if (node >= leaves_) {
    item_at_[node - leaves_] = part.front();
    leaf_of_[part.front()] = static_cast<std::uint32_t>(node);
    return;
  }
  const std::size_t half = (part.size() + 1) / 2;
  if (half < part.size()) {
    const auto before = [&](std::uint32_t a, std::uint32_t b) {
      return by_first ? std::tie(items[a].first, a) < std::tie(items[b].first, b)
                      : std::tie(items[a].last, a) < std::tie(items[b].last, b);
    };
    std::nth_element(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(half), part.end(),
                     before);
  }
  build(items, part.first(half), 2 * node, !by_first);
  build(items, part.subspan(half), 2 * node + 1, !by_first);
}

void LifetimeIndex::fill(std::span<const std::uint32_t> ranks) {
  for (std::size_t leaf = 0; leaf < leaves_; ++leaf) {
    lowest_[leaves_ + leaf] = item_at_[leaf] == kNone ? kNone : ranks[item_at_[leaf]];
  }
  for (std::size_t node = leaves_ - 1; node >= 1; --node) {
    lowest_[node] = std::min(lowest_[2 * node], lowest_[2 * node + 1]);
  }
}

std::uint32_t LifetimeIndex::find(std::uint32_t first, std::uint32_t last) const {
  std::uint32_t best = kNone;
  search(1, first, last, best);
  return best;
}

void LifetimeIndex::search(std::size_t node, std::uint32_t first, std::uint32_t last,
                           std::uint32_t& best) const {
  const Box& box = boxes_[node];
  if (lowest_[node] >= best || box.max_first < first || box.min_last > last) return;
  if (box.min_first >= first && box.max_last <= last) {
    best = lowest_[node];
    return;
  }
  // Not a leaf: a leaf's box is one point, inside or out.
  const std::size_t left = 2 * node;
  const std::size_t promising = lowest_[left] <= lowest_[left + 1] ? left : left + 1;
  search(promising, first, last, best);
  search(promising ^ 1U, first, last, best);
}

void LifetimeIndex::take_out(std::uint32_t item) {
  std::size_t node = leaf_of_[item];
  lowest_[node] = kNone;
  for (node /= 2; node >= 1; node /= 2) {
    const std::uint32_t lowest = std::min(lowest_[2 * node], lowest_[2 * node + 1]);
    if (lowest_[node] == lowest) break;
    lowest_[node] = lowest;
  }
}

}  // namespace ebb
