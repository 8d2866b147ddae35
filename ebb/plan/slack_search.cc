#include "ebb/plan/slack_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "ebb/base/check.h"

namespace ebb {
namespace {

// Found by trial on MiniMalloc's problems (bench/layout_minimalloc.cc), where neither of the first
// two matters much: 3 to 64 candidates and 10 to 50 failures change the mean by half a per cent.
constexpr std::size_t kCandidates = 8;     // looked at a choice
constexpr std::int64_t kFailures = 20;     // before a new try, times the Luby sequence
constexpr std::int64_t kBlame = 1 << 20U;  // of an item at a section that failed
constexpr std::int64_t kForgetting = 4;    // that part of all blame goes with every try
// Which part of the way from the best size to the target to try, in eighths.
constexpr std::array<std::int64_t, 4> kAmbitions = {0, 1, 2, 4};

constexpr std::size_t kCostOfTry = 8;  // and what it takes for each item

// 1, 1, 2, 1, 1, 2, 4, 1, 1, 2, ...: i from 1 (Luby, Sinclair, Zuckerman, 1993).
std::int64_t luby(std::int64_t i) {
  while (true) {
    std::int64_t power = 1;  // the least with i < 2 * power
    while (2 * power - 1 < i) power *= 2;
    if (2 * power - 1 == i) return power;
    i -= power - 1;
  }
}

bool covers(const LayoutItem& item, std::uint32_t section) {
  return item.first <= section && section <= item.last;
}

bool are_alike(const LayoutItem& a, const LayoutItem& b) {
  return a.first == b.first && a.last == b.last && a.size == b.size;
}

}  // namespace

SlackSearch::SlackSearch(const LayoutProblem& problem)
    : problem_(problem),
      by_first_(problem.items.size()),
      begin_(problem.sections() + 1),
      heights_(problem.sections()),
      slack_(problem.sections()),
      is_placed_(problem.items.size()),
      ranks_(problem.items.size()),
      offsets_(problem.items.size()) {
  std::iota(by_first_.begin(), by_first_.end(), 0U);
  std::stable_sort(by_first_.begin(), by_first_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return problem.items[a].first < problem.items[b].first;
  });
  for (const LayoutItem& item : problem.items) ++begin_[item.first + 1];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
}

std::int64_t SlackSearch::improve(std::int64_t size, const LayoutOrders& orders, Effort& effort,
                                  std::vector<std::int64_t>& offsets) {
  std::vector<Memory> memories(LayoutOrders::count());  // they take turns
  for (std::size_t i = 0; i < memories.size(); ++i) {
    memories[i] = {.order = orders[i], .blame = std::vector<std::int64_t>(offsets.size())};
  }
  std::int64_t least = problem_.target;
  for (std::size_t tries = 0; size > least && effort.any_left(); ++tries) {
    Memory& memory = memories[tries % memories.size()];
    const std::int64_t ambition = kAmbitions[tries / memories.size() % kAmbitions.size()];
    const std::int64_t aim = size - 1 - (size - 1 - least) * ambition / 8;
    const Outcome outcome = try_size(aim, memory, effort);
    if (outcome == Outcome::kImpossible) least = aim + 1;
    if (outcome != Outcome::kFound) continue;
    size = problem_.fixed_end;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      size = std::max(size, offsets_[i] + problem_.items[i].size);
    }
    EBB_CHECK(problem_.bound <= size && size <= aim, "a layout of size {}, sought from {} to {}",
              size, problem_.bound, aim);
    offsets = offsets_;
  }
  return size;
}

SlackSearch::Outcome SlackSearch::try_size(std::int64_t size, Memory& memory, Effort& effort) {
  start(size, memory);
  effort.spend(static_cast<std::int64_t>(kCostOfTry + problem_.items.size() / 2));
  for (std::int64_t& blame : memory.blame) blame -= blame / kForgetting;
  const std::int64_t patience = kFailures * luby(++memory.tries);
  while (left_ != 0) {
    if (!effort.any_left()) return Outcome::kGaveUp;
    add_choice(effort);
    while (!advance(choices_.back(), memory, effort)) {
      candidates_.resize(choices_.back().candidates);
      choices_.pop_back();
      if (choices_.empty()) return left_out_ ? Outcome::kGaveUp : Outcome::kImpossible;
      if (failures_ > patience) return Outcome::kGaveUp;
      undo(choices_.back());
    }
  }
  return Outcome::kFound;
}

void SlackSearch::start(std::int64_t size, const Memory& memory) {
  for (std::uint32_t s = 0; s < problem_.sections(); ++s) {
    heights_[s] = problem_.floor[s];
    slack_[s] = size - problem_.load[s];
  }
  LayoutOrder order = memory.order;
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return memory.blame[a] > memory.blame[b];
  });
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) ranks_[order[rank]] = rank;
  std::fill(is_placed_.begin(), is_placed_.end(), false);
  choices_.clear();
  candidates_.clear();
  left_ = order.size();
  failures_ = 0;
  left_out_ = false;
}

void SlackSearch::add_choice(Effort& effort) {
  const auto lowest = std::min_element(heights_.begin(), heights_.end());
  const auto end =
      std::find_if(lowest, heights_.end(), [&](std::int64_t height) { return height != *lowest; });
  Choice choice;
  choice.first = static_cast<std::uint32_t>(lowest - heights_.begin());
  choice.last = static_cast<std::uint32_t>(end - heights_.begin()) - 1;
  choice.height = *lowest;
  choice.lifted = std::numeric_limits<std::int64_t>::max();
  if (lowest != heights_.begin()) choice.lifted = *(lowest - 1);
  if (end != heights_.end()) choice.lifted = std::min(choice.lifted, *end);
  add_candidates(choice);
  choices_.push_back(choice);
  const std::uint32_t begun = begin_[choice.last + 1] - begin_[choice.first];
  const std::uint32_t width = choice.last - choice.first;
  effort.spend(1 + problem_.sections() / 128 + begun / 16 + width / 128);
}

void SlackSearch::add_candidates(Choice& choice) {
  choice.candidates = choice.next = static_cast<std::uint32_t>(candidates_.size());
  // No section is lifted by less: to the top of what is placed beside it, or of a neighbour.
  std::int64_t least_lift = choice.lifted - choice.height;
  for (std::uint32_t i = begin_[choice.first]; i != begin_[choice.last + 1]; ++i) {
    const LayoutItem& item = problem_.items[by_first_[i]];
    if (is_placed_[by_first_[i]] || item.last > choice.last) continue;
    candidates_.push_back(by_first_[i]);
    least_lift = std::min(least_lift, item.size);
  }
  const auto tightest =
      std::min_element(slack_.begin() + choice.first, slack_.begin() + choice.last + 1);
  const auto begin = candidates_.begin() + choice.candidates;
  if (*tightest < least_lift) {
    choice.must = static_cast<std::uint32_t>(tightest - slack_.begin());
    candidates_.erase(std::remove_if(begin, candidates_.end(),
                                     [&](std::uint32_t item) {
                                       return !covers(problem_.items[item], choice.must);
                                     }),
                      candidates_.end());
  }
  const auto more_important = [&](std::uint32_t a, std::uint32_t b) {
    return ranks_[a] < ranks_[b];
  };
  const auto count = static_cast<std::size_t>(candidates_.end() - begin);
  const auto kept = begin + static_cast<std::ptrdiff_t>(std::min(count, kCandidates));
  std::partial_sort(begin, kept, candidates_.end(), more_important);
  if (kept != candidates_.end()) left_out_ = true;
  candidates_.erase(kept, candidates_.end());
}

bool SlackSearch::advance(Choice& choice, Memory& memory, Effort& effort) {
  while (choice.next != candidates_.size()) {
    const std::uint32_t chosen = candidates_[choice.next];
    const LayoutItem& item = problem_.items[chosen];
    const bool is_new =
        std::none_of(candidates_.begin() + choice.candidates, candidates_.begin() + choice.next,
                     [&](std::uint32_t tried) { return are_alike(problem_.items[tried], item); });
    ++choice.next;
    if (!is_new) continue;
    choice.placed = chosen;
    is_placed_[chosen] = true;
    --left_;
    offsets_[chosen] = choice.height;
    set_heights(item.first, item.last, choice.height + item.size);
    return true;
  }
  if (choice.is_lifted) return false;
  if (choice.must != kNone) {
    fail_at(choice.must, memory, effort);
    return false;
  }
  const std::int64_t by = choice.lifted - choice.height;
  const auto begin = slack_.begin() + choice.first;
  const auto end = slack_.begin() + choice.last + 1;
  const auto without = std::find_if(begin, end, [&](std::int64_t slack) { return slack < by; });
  if (without != end) {
    fail_at(static_cast<std::uint32_t>(without - slack_.begin()), memory, effort);
    return false;
  }
  choice.is_lifted = true;
  lift(choice, by);
  set_heights(choice.first, choice.last, choice.lifted);
  return true;
}

void SlackSearch::undo(Choice& choice) {
  if (choice.placed != kNone && !choice.is_lifted) {
    const LayoutItem& item = problem_.items[choice.placed];
    set_heights(item.first, item.last, choice.height);
    is_placed_[choice.placed] = false;
    ++left_;
  } else {
    set_heights(choice.first, choice.last, choice.height);
    lift(choice, choice.height - choice.lifted);
  }
}

void SlackSearch::set_heights(std::uint32_t first, std::uint32_t last, std::int64_t height) {
  std::fill(heights_.begin() + first, heights_.begin() + last + 1, height);
}

void SlackSearch::lift(const Choice& choice, std::int64_t by) {
  for (std::uint32_t s = choice.first; s <= choice.last; ++s) slack_[s] -= by;
}

void SlackSearch::fail_at(std::uint32_t section, Memory& memory, Effort& effort) {
  ++failures_;
  for (std::uint32_t i = 0; i != begin_[section + 1]; ++i) {
    if (problem_.items[by_first_[i]].last >= section) memory.blame[by_first_[i]] += kBlame;
  }
  effort.spend(begin_[section + 1] / 32);
}

}  // namespace ebb
