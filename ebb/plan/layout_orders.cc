#include "ebb/plan/layout_orders.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace ebb {
namespace {

// The largest value within any range, in constant time after O(n log n).
class RangeMaximum {
 public:
  explicit RangeMaximum(const std::vector<std::int64_t>& values) : levels_{values} {
    for (std::size_t half = 1; 2 * half <= values.size(); half *= 2) {
      const std::vector<std::int64_t>& below = levels_.back();
      std::vector<std::int64_t> level(values.size() - 2 * half + 1);
      for (std::size_t i = 0; i < level.size(); ++i) {
        level[i] = std::max(below[i], below[i + half]);
      }
      levels_.push_back(std::move(level));
    }
  }

  [[nodiscard]] std::int64_t operator()(std::uint32_t first, std::uint32_t last) const {
    const std::uint32_t width = std::bit_floor(last - first + 1);
    const auto& level = levels_[static_cast<std::size_t>(std::countr_zero(width))];
    return std::max(level[first], level[last + 1 - width]);
  }

 private:
  std::vector<std::vector<std::int64_t>> levels_;  // the k-th over ranges of 2^k values
};

using Traits = LayoutOrders::Traits;
using Key = std::array<double, 3>;

// Found by trial on the steps of examples/, as they are and with long lives cut in two as swapping
// does: the skyline reaches the bound with one of the first four, but for a few that take some
// more search.
constexpr std::array<Key (*)(const Traits&), 7> kImportances = {
    [](const Traits& t) { return Key{t.load, t.length, t.size}; },
    [](const Traits& t) { return Key{t.area, t.size, 0.0}; },
    [](const Traits& t) { return Key{t.length, t.size, 0.0}; },
    [](const Traits& t) { return Key{t.load, t.area, t.size}; },
    [](const Traits& t) { return Key{t.load, t.size, t.length}; },
    [](const Traits& t) { return Key{t.size, t.length, 0.0}; },
    [](const Traits& t) { return Key{-t.birth, t.length, t.size}; },
};

}  // namespace

LayoutOrders::LayoutOrders(const LayoutProblem& problem) {
  const RangeMaximum max_load(problem.load);
  traits_.reserve(problem.items.size());
  for (const LayoutItem& item : problem.items) {
    const auto size = static_cast<double>(item.size);
    const auto length = static_cast<double>(item.length());
    traits_.push_back({.load = static_cast<double>(max_load(item.first, item.last)),
                       .length = length,
                       .size = size,
                       .area = size * length,
                       .birth = static_cast<double>(item.first)});
  }
}

std::size_t LayoutOrders::count() { return kImportances.size(); }

LayoutOrder LayoutOrders::operator[](std::size_t i) const {
  std::vector<Key> keys;
  keys.reserve(traits_.size());
  for (const Traits& traits : traits_) keys.push_back(kImportances[i](traits));
  LayoutOrder order(traits_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return keys[a] > keys[b]; });
  return order;
}

}  // namespace ebb
