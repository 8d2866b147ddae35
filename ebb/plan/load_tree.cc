#include "ebb/plan/load_tree.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace ebb {
namespace {

constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min() / 2;

}  // namespace

LoadTree::LoadTree(std::span<const Bytes> held)
    : leaves_(std::bit_ceil(std::max<std::uint32_t>(1, static_cast<std::uint32_t>(held.size())))),
      maxima_(2 * std::size_t{leaves_}, kNothing),
      added_(leaves_, 0) {
  for (std::size_t i = 0; i < held.size(); ++i) maxima_[leaves_ + i] = held[i].count;
  for (std::uint32_t i = leaves_ - 1; i > 0; --i) {
    maxima_[i] = larger_child(i);
  }
}

std::int64_t LoadTree::larger_child(std::uint32_t node) const {
  const std::size_t left = std::size_t{2} * node;
  return std::max(maxima_[left], maxima_[left + 1]);
}

void LoadTree::add(std::uint32_t first, std::uint32_t last, Bytes bytes) {
  if (first < last) add(1, 0, leaves_, first, last, bytes.count);
}

void LoadTree::add(std::uint32_t node, std::uint32_t begin,
                   std::uint32_t end,  // NOLINT(misc-no-recursion)
                   std::uint32_t first, std::uint32_t last, std::int64_t bytes) {
  if (first <= begin && end <= last) {
    maxima_[node] += bytes;
    if (node < leaves_) added_[node] += bytes;
    return;
  }
  const std::uint32_t middle = begin + (end - begin) / 2;
  if (first < middle) add(2 * node, begin, middle, first, last, bytes);
  if (last > middle) add(2 * node + 1, middle, end, first, last, bytes);
  maxima_[node] = larger_child(node) + added_[node];
}

std::uint32_t LoadTree::argmax() const {
  std::uint32_t node = 1;
  while (node < leaves_) {
    const std::uint32_t left = 2 * node;
    node = maxima_[left] == larger_child(node) ? left : left + 1;
  }
  return node - leaves_;
}

Bytes LoadTree::max(std::uint32_t first, std::uint32_t last) const {
  return Bytes{max(1, 0, leaves_, first, last)};
}

std::int64_t LoadTree::max(std::uint32_t node, std::uint32_t begin,
                           std::uint32_t end,  // NOLINT(misc-no-recursion)
                           std::uint32_t first, std::uint32_t last) const {
  if (first <= begin && end <= last) return maxima_[node];
  const std::uint32_t middle = begin + (end - begin) / 2;
  std::int64_t most = kNothing;
  if (first < middle) most = std::max(most, max(2 * node, begin, middle, first, last));
  if (last > middle) most = std::max(most, max(2 * node + 1, middle, end, first, last));
  return most + added_[node];
}

}  // namespace ebb
