#include "ebb/plan/best_fit.h"

#include <algorithm>
#include <limits>

namespace ebb {
namespace {

constexpr std::int64_t kCostOfItem = 10;
constexpr std::int64_t kRangesPerUnit = 4;  // sorted and gone through

}  // namespace

BestFit::BestFit(const LayoutProblem& problem)
    : problem_(problem), occupancy_(problem.sections()) {}

std::optional<std::int64_t> BestFit::place(std::span<const std::uint32_t> order, std::int64_t limit,
                                           Effort& effort, std::span<std::int64_t> offsets) {
  occupancy_.clear();
  for (const auto& [item, offset] : problem_.fixed) {
    occupancy_.add(item.first, item.last, {offset, offset + item.size});
  }
  std::int64_t size = problem_.fixed_end;
  for (const std::uint32_t i : order) {
    if (size >= limit || !effort.any_left()) return std::nullopt;
    const LayoutItem& item = problem_.items[i];
    const std::int64_t offset = find_hole(item);
    effort.spend(kCostOfItem + static_cast<std::int64_t>(taken_.size()) / kRangesPerUnit);
    offsets[i] = offset;
    size = std::max(size, offset + item.size);
    occupancy_.add(item.first, item.last, {offset, offset + item.size});
  }
  if (size >= limit) return std::nullopt;
  return size;
}

std::int64_t BestFit::find_hole(const LayoutItem& item) {
  occupancy_.find(item.first, item.last, taken_);
  constexpr std::int64_t kNoHole = std::numeric_limits<std::int64_t>::max();
  std::int64_t smallest = kNoHole;
  std::int64_t best = 0;
  std::int64_t end = 0;  // of what was taken so far
  for (const AddressRange& range : taken_) {
    const std::int64_t hole = range.begin - end;
    if (hole >= item.size && hole < smallest) {
      smallest = hole;
      best = end;
      if (hole == item.size) break;
    }
    end = std::max(end, range.end);
  }
  return smallest == kNoHole ? end : best;
}

}  // namespace ebb
