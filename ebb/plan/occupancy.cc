#include "ebb/plan/occupancy.h"

#include <algorithm>
#include <bit>

namespace ebb {

Occupancy::Occupancy(std::uint32_t sections)
    : width_(std::bit_ceil(std::max(sections, 1U))), nodes_(std::size_t{2} * width_) {}

void Occupancy::clear() {
  for (Node& node : nodes_) {
    node.throughout.clear();
    node.anywhere.clear();
  }
}

void Occupancy::add(std::uint32_t first, std::uint32_t last, AddressRange range) {
  add_below(whole(), first, last, range);
}

void Occupancy::find(std::uint32_t first, std::uint32_t last,
                     std::vector<AddressRange>& taken) const {
  taken.clear();
  find_below(whole(), first, last, taken);
  std::sort(taken.begin(), taken.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
}

Occupancy::Span Occupancy::left_half(Span span) {
  return {2 * span.node, span.first, span.first + (span.last - span.first) / 2};
}

Occupancy::Span Occupancy::right_half(Span span) {
  return {2 * span.node + 1, span.first + (span.last - span.first) / 2 + 1, span.last};
}

void Occupancy::insert(std::vector<AddressRange>& ranges, AddressRange range) {
  const auto first =
      std::lower_bound(ranges.begin(), ranges.end(), range.begin,
                       [](const AddressRange& a, std::int64_t begin) { return a.end < begin; });
  if (first == ranges.end() || range.end < first->begin) {
    ranges.insert(first, range);
    return;
  }
  auto end = first;
  for (; end != ranges.end() && end->begin <= range.end; ++end) {
    range.begin = std::min(range.begin, end->begin);
    range.end = std::max(range.end, end->end);
  }
  *first = range;
  ranges.erase(first + 1, end);
}

void Occupancy::add_below(Span span, std::uint32_t first, std::uint32_t last, AddressRange range) {
  Node& node = nodes_[span.node];
  insert(node.anywhere, range);
  if (first <= span.first && span.last <= last) {
    insert(node.throughout, range);
    return;
  }
  const Span left = left_half(span);
  const Span right = right_half(span);
  if (first <= left.last) add_below(left, first, last, range);
  if (right.first <= last) add_below(right, first, last, range);
}

void Occupancy::find_below(Span span, std::uint32_t first, std::uint32_t last,
                           std::vector<AddressRange>& taken) const {
  const Node& node = nodes_[span.node];
  const bool inside = first <= span.first && span.last <= last;
  const auto& ranges = inside ? node.anywhere : node.throughout;
  taken.insert(taken.end(), ranges.begin(), ranges.end());
  if (inside) return;
  const Span left = left_half(span);
  const Span right = right_half(span);
  if (first <= left.last) find_below(left, first, last, taken);
  if (right.first <= last) find_below(right, first, last, taken);
}

}  // namespace ebb
