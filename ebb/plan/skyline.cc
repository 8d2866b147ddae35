#include "ebb/plan/skyline.h"

#include <algorithm>
#include <tuple>

#include "ebb/base/check.h"

namespace ebb {
namespace {

constexpr std::int64_t kCostOfStretch = 2;  // to take one and look for an item

}  // namespace

Skyline::Skyline(const LayoutProblem& problem)
    : problem_(problem),
      index_(problem.items),
      height_(problem.sections()),
      last_(problem.sections()),
      first_(problem.sections()),
      ranks_(problem.items.size()) {}

std::optional<std::int64_t> Skyline::place(std::span<const std::uint32_t> order, std::int64_t limit,
                                           Effort& effort, std::span<std::int64_t> offsets) {
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) ranks_[order[rank]] = rank;
  index_.fill(ranks_);
  start();
  std::int64_t size = problem_.fixed_end;
  for (std::size_t left = order.size(); left != 0;) {
    if (size >= limit || !effort.any_left()) return std::nullopt;
    effort.spend(kCostOfStretch);
    const auto [height, first] = take_lowest();
    const std::uint32_t last = last_[first];
    const std::uint32_t rank = index_.find(first, last);
    if (rank == LifetimeIndex::kNone) {
      lift(first);
      continue;
    }
    const std::uint32_t chosen = order[rank];
    const LayoutItem& item = problem_.items[chosen];
    index_.take_out(chosen);
    --left;
    offsets[chosen] = height;
    size = std::max(size, height + item.size);
    // What is left of the stretch on both sides, then the item between them.
    height_[first] = kNoStretch;
    if (first < item.first) put_stretch(first, item.first - 1, height);
    if (item.last < last) put_stretch(item.last + 1, last, height);
    join_stretch(item.first, item.last, height + item.size);
  }
  if (size >= limit) return std::nullopt;
  return size;
}

void Skyline::start() {
  heap_.clear();
  std::fill(height_.begin(), height_.end(), kNoStretch);
  const std::uint32_t sections = problem_.sections();
  for (std::uint32_t first = 0; first < sections;) {
    std::uint32_t last = first;
    while (last + 1 < sections && problem_.floor[last + 1] == problem_.floor[first]) ++last;
    put_stretch(first, last, problem_.floor[first]);
    first = last + 1;
  }
}

Skyline::Entry Skyline::take_lowest() {
  while (true) {
    EBB_CHECK(!heap_.empty(), "items are left, and no stretch to put them on");
    std::pop_heap(heap_.begin(), heap_.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.height, a.first) > std::tie(b.height, b.first);
    });
    const Entry entry = heap_.back();
    heap_.pop_back();
    if (height_[entry.first] == entry.height) return entry;
  }
}

void Skyline::push(Entry entry) {
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.height, a.first) > std::tie(b.height, b.first);
  });
}

void Skyline::put_stretch(std::uint32_t first, std::uint32_t last, std::int64_t height) {
  height_[first] = height;
  last_[first] = last;
  first_[last] = first;
  push({height, first});
}

// As put_stretch, but makes one stretch with neighbours of the same height.
void Skyline::join_stretch(std::uint32_t first, std::uint32_t last, std::int64_t height) {
  if (last + 1 < problem_.sections() && height_[last + 1] == height) {
    const std::uint32_t next = last + 1;
    last = last_[next];
    height_[next] = kNoStretch;
  }
  if (first > 0 && height_[first_[first - 1]] == height) {
    first = first_[first - 1];  // its entry is in the heap
    last_[first] = last;
    first_[last] = first;
    return;
  }
  put_stretch(first, last, height);
}

void Skyline::lift(std::uint32_t first) {
  const std::uint32_t last = last_[first];
  std::int64_t height = kNoStretch;
  if (first > 0) height = height_[first_[first - 1]];
  if (last + 1 < problem_.sections()) {
    const std::int64_t right = height_[last + 1];
    height = height == kNoStretch ? right : std::min(height, right);
  }
  EBB_CHECK(height != kNoStretch, "items are left that fit on no stretch");
  height_[first] = kNoStretch;
  join_stretch(first, last, height);
}

}  // namespace ebb
