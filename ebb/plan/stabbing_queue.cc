#include "ebb/plan/stabbing_queue.h"

#include <algorithm>
#include <bit>

namespace ebb {

StabbingQueue::StabbingQueue(std::uint32_t lines, std::uint32_t count)
    : leaves_(std::bit_ceil(std::max<std::uint32_t>(1, lines))),
      heaps_(2 * std::size_t{leaves_}),
      turns_(count),
      prices_(count) {}

void StabbingQueue::put(std::uint32_t id, std::uint32_t first, std::uint32_t last, double price) {
  const Entry entry{price, id, ++turns_[id]};
  prices_[id] = price;
  const auto push = [&](std::vector<Entry>& heap) {
    heap.push_back(entry);
    std::push_heap(heap.begin(), heap.end());
  };
  std::uint32_t begin = first + leaves_;
  std::uint32_t end = last + leaves_;
  for (; begin < end; begin /= 2, end /= 2) {
    if (begin % 2 == 1) push(heaps_[begin++]);
    if (end % 2 == 1) push(heaps_[--end]);
  }
}

std::optional<std::uint32_t> StabbingQueue::cheapest_at(std::uint32_t line) {
  std::optional<Entry> best;
  for (std::uint32_t node = line + leaves_; node > 0; node /= 2) {
    std::vector<Entry>& heap = heaps_[node];
    while (!heap.empty() && heap.front().turn != turns_[heap.front().id]) {
      std::pop_heap(heap.begin(), heap.end());
      heap.pop_back();
    }
    if (!heap.empty() && (!best || *best < heap.front())) best = heap.front();
  }
  if (!best) return std::nullopt;
  return best->id;
}

}  // namespace ebb
