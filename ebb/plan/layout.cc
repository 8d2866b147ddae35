// The idea: a placer turns an order of the items into offsets, and which order is good depends on
// the step. So try some, the most promising first, and stop at the bound. If none reaches it,
// and the best is not enough, search (slack_search.h) for as long as the effort allows; or, among
// buffers with fixed offsets, change the best order a little where items stick out.
#include "ebb/plan/layout.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "ebb/base/check.h"
#include "ebb/plan/best_fit.h"
#include "ebb/plan/layout_orders.h"
#include "ebb/plan/layout_problem.h"
#include "ebb/plan/skyline.h"
#include "ebb/plan/slack_search.h"

namespace ebb {
namespace {

constexpr std::int64_t kNoSize = std::numeric_limits<std::int64_t>::max();

// The best that one placer has found, and the search for something better.
class Walk {
 public:
  Walk(const LayoutProblem& problem, Placer& placer)
      : problem_(problem), placer_(placer), attempt_(problem.items.size()) {}

  // Keeps what comes out if its size is below the limit.
  void attempt(LayoutOrder order, std::int64_t limit, Effort& effort);
  // Changes the order at random, never for the worse, until it reaches the target or has no effort
  // left.
  void improve(Effort& effort);

  [[nodiscard]] std::int64_t size() const { return size_; }  // kNoSize: has found nothing yet
  [[nodiscard]] const std::vector<std::int64_t>& offsets() const { return offsets_; }

 private:
  [[nodiscard]] LayoutOrder changed_order();
  std::uint32_t any_of(const std::vector<std::uint32_t>& choices);
  std::uint64_t next_random();

  const LayoutProblem& problem_;
  Placer& placer_;
  std::int64_t size_ = kNoSize;
  LayoutOrder order_;
  std::vector<std::int64_t> offsets_;  // by item
  std::vector<std::int64_t> attempt_;  // the offsets of the attempt at hand
  std::uint64_t random_state_ = 0;
};

void Walk::attempt(LayoutOrder order, std::int64_t limit, Effort& effort) {
  const std::optional<std::int64_t> size = placer_.place(order, limit, effort, attempt_);
  if (!size) return;
  EBB_CHECK(*size >= problem_.bound, "a layout of size {} is below its bound, {}", *size,
            problem_.bound);
  size_ = *size;
  order_ = std::move(order);
  offsets_.swap(attempt_);
  attempt_.resize(offsets_.size());
}

void Walk::improve(Effort& effort) {
  while (size_ > problem_.target && effort.any_left()) {
    LayoutOrder changed = changed_order();
    effort.spend(static_cast<std::int64_t>(changed.size() / 8));
    attempt(std::move(changed), size_ + 1, effort);  // also sideways, or it would soon be stuck
  }
}

// Moves an item to the place of another, or swaps the two: items that are alive together with one
// that sticks out. All in the topmost part count as sticking out, not only the highest: those are
// next.
LayoutOrder Walk::changed_order() {
  const std::int64_t line = std::max(problem_.bound, size_ - 1 - size_ / 50);
  std::vector<std::uint32_t> tops;
  for (std::uint32_t i = 0; i < offsets_.size(); ++i) {
    if (offsets_[i] + problem_.items[i].size > line) tops.push_back(i);
  }
  const LayoutItem& top = problem_.items[any_of(tops)];
  std::vector<std::uint32_t> places;  // in the order
  for (std::uint32_t place = 0; place < order_.size(); ++place) {
    const LayoutItem& item = problem_.items[order_[place]];
    if (item.first <= top.last && top.first <= item.last) places.push_back(place);
  }
  const std::uint32_t from = any_of(places);
  const std::uint32_t to = any_of(places);
  LayoutOrder order = order_;
  const auto at = [&](std::uint32_t place) { return order.begin() + place; };
  if (next_random() % 2 == 0) {
    std::iter_swap(at(from), at(to));
  } else if (from < to) {
    std::rotate(at(from), at(from) + 1, at(to) + 1);
  } else {
    std::rotate(at(to), at(from), at(from) + 1);
  }
  return order;
}

std::uint32_t Walk::any_of(const std::vector<std::uint32_t>& choices) {
  EBB_CHECK(!choices.empty(), "nothing to choose from");
  return choices[next_random() % choices.size()];
}

// splitmix64: the same numbers everywhere, which the distributions of <random> do not promise.
std::uint64_t Walk::next_random() {
  random_state_ += 0x9E3779B97F4A7C15U;
  std::uint64_t bits = random_state_;
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31U);
}

struct Found {
  std::int64_t size = 0;
  std::vector<std::int64_t> offsets;  // by item
};

Found search(const LayoutProblem& problem, Effort effort) {
  const LayoutOrders orders(problem);
  Effort unlimited = Effort::unlimited();
  Skyline skyline(problem);
  Walk low(problem, skyline);
  for (std::size_t i = 0; i < LayoutOrders::count() && low.size() != problem.bound; ++i) {
    low.attempt(orders[i], low.size(), unlimited);
  }
  if (!problem.room_below_floor || low.size() <= problem.target) {
    Found found{low.size(), low.offsets()};
    if (found.size > problem.target) {
      found.size = SlackSearch(problem).improve(found.size, orders, effort, found.offsets);
    }
    return found;
  }
  // The skyline does not use the room below the floor, which may be almost all there is. Otherwise
  // best fit is slower and no better.
  BestFit best_fit(problem);
  Walk tight(problem, best_fit);
  tight.attempt(orders[0], low.size(), unlimited);
  for (std::size_t i = 1; i < LayoutOrders::count() && effort.any_left(); ++i) {
    const std::int64_t best = std::min(low.size(), tight.size());
    if (best == problem.bound) break;
    tight.attempt(orders[i], best, effort);
  }
  Walk& best = tight.size() < low.size() ? tight : low;
  best.improve(effort);
  return {best.size(), best.offsets()};
}

}  // namespace

Layout lay_out(std::span<const LayoutBuffer> buffers, const LayoutOptions& options) {
  const LayoutProblem problem = make_layout_problem(buffers, options);
  const std::int64_t alignment = options.alignment.count;
  Layout layout;
  layout.bound = Bytes{problem.bound * alignment};
  layout.offsets.reserve(buffers.size());
  for (const LayoutBuffer& buffer : buffers) layout.offsets.push_back(buffer.at.value_or(Bytes{}));
  if (problem.items.empty()) {
    layout.size = Bytes{problem.fixed_end * alignment};
    return layout;
  }
  const Found found = search(problem, Effort(options.effort));
  layout.size = Bytes{found.size * alignment};
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    layout.offsets[problem.items[i].buffer] = Bytes{found.offsets[i] * alignment};
  }
  return layout;
}

}  // namespace ebb
