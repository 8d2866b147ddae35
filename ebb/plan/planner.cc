#include "ebb/plan/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ebb/plan/alike.h"
#include "ebb/plan/layout.h"
#include "ebb/plan/load_tree.h"
#include "ebb/plan/prices.h"
#include "ebb/plan/stabbing_queue.h"

namespace ebb {
namespace {

// What a copy's time costs, from nothing, where the link has time to spare, to all of it.
constexpr std::array kLinkPrices = {0.0, 0.03, 0.1, 0.25, 0.5, 1.0};
constexpr int kMostRounds = 24;
constexpr std::size_t kFewGaps = 64;
// Lines that search may simulate altogether: about a second.
constexpr std::uint64_t kDefaultWork = 6'000'000;
// A tenth of the usual: it is asked often.
constexpr std::int64_t kLayoutEffort = 100'000;

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // splitmix64, the same everywhere.
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(next() % limit); }

 private:
  std::uint64_t state_;
};

class Planner {
 public:
  Planner(const StepModel& model, const std::vector<Gap>& gaps, const Link& link,
          const PlannerOptions& options)
      : model_(model),
        gaps_(gaps),
        link_(link),
        options_(options),
        evaluator_(
            model, gaps, link,
            {.budget = options.budget, .host_budget = options.host_budget, .clock = options.clock}),
        prices_(model, gaps, link_),
        random_(options.seed),
        budget_(options.budget),
        gap_starts_(index_gaps(model, gaps)) {
    best_.peak = kNoLimit;
  }

  PlannerResult run() {
    best_.choices = choose_nothing(model_, gaps_);
    if (options_.start != nullptr) {
      find_room();
    } else if (!try_out(best_.choices)) {
      find_start();
    }
    if (best_.fits && !gaps_.empty() && best_.total > least_time()) {
      search();
    } else if (best_.fits && options_.progress) {
      options_.progress(evaluations_, evaluations_, best_.total);
    }
    best_.evaluations = evaluations_;
    return std::move(best_);
  }

 private:
  // No step takes less: what its operations take.
  [[nodiscard]] Duration least_time() const {
    Duration total{};
    for (const StepModel::Operation& it : model_.operations) total += it.takes;
    return total;
  }

  void find_start() {
    const Choices nothing = best_.choices;
    // Where nothing fits, all that can go may have to, so that chains need less.
    for (const int part : {4, 3, 2, 0}) {
      // What is tried then does not depend on the budget, so that the least that is found is found
      // again by who asks for it.
      counts_as_least_ = part == 0;
      if (counts_as_least_) random_ = Random(options_.seed);
      fit(nothing, Bytes{options_.budget.count / 4 * part});
      if (best_.fits) break;
    }
  }

  // The lines of what was chosen fit, but its offsets do not: so there must be less on the lines,
  // how much less depends on what is left.
  void find_room() {
    has_offsets_ = true;
    const bool is_enough = options_.evaluations == 0U;  // that there is any
    for (const int percent : {1, 2, 3, 5, 7, 10, 14, 19}) {
      plan_for(Bytes{options_.budget.count / 100 * (100 - percent)});
      fit(*options_.start, budget_);
      if (best_.fits && (is_enough || percent > 6 || is_out_of_time())) return;
    }
  }

  [[nodiscard]] bool is_out_of_time() const {
    return options_.is_out_of_time && options_.is_out_of_time();
  }

  // By each price of the link.
  void fit(const Choices& start, Bytes goal) {
    for (const double price : kLinkPrices) {
      Choices choices = start;
      if (make_fit(choices, price, goal)) trim(choices, price);
    }
  }

  void plan_for(Bytes budget) {
    budget_ = budget;
    evaluator_.set_budget(budget);
  }

  // Whether the offsets of the last evaluation fit, where that is asked.
  [[nodiscard]] bool has_room() const {
    if (!has_offsets_) return true;
    const Bytes enough = options_.room - evaluator_.state_size();
    const LayoutOptions layout{
        .alignment = options_.alignment, .effort = kLayoutEffort, .enough = enough};
    return lay_out(evaluator_.buffers(), layout).size <= enough;
  }

  // Simulates, and keeps the best. Whether it fits.
  bool try_out(const Choices& choices) {
    ++evaluations_;
    const Evaluation& it = evaluator_.evaluate(choices);
    const bool fits = it.verdict == Verdict::kFits;
    const bool is_better = fits ? (!best_.fits || it.total < best_.total) && has_room()
                                : !best_.fits && it.verdict == Verdict::kOverBudget &&
                                      it.fits_host && counts_as_least_ && it.peak < best_.peak;
    if (is_better) {
      best_.fits = fits;
      best_.budget = budget_;
      best_.choices = choices;
      best_.total = it.total;
      best_.peak = it.peak;
    }
    last_ = &it;
    return fits;
  }

  // --- Greed.

  // Makes gaps absent until the choices fit, by the price of the link.
  bool make_fit(Choices& choices, double link_price, Bytes goal) {
    // What clones need besides is not known before the next evaluation: aim lower by what was
    // missed.
    is_host_limited_ = false;
    for (int round = 0; round < kMostRounds; ++round) {
      if (try_out(choices)) return true;
      if (last_->verdict == Verdict::kOverHostBudget && !is_host_limited_) {
        // What need not go may be enough. If not, once more from the start, with no more swaps
        // than the host has room for at once.
        trim(choices, link_price);
        if (last_->verdict == Verdict::kFits) return true;
        is_host_limited_ = true;
        choices = choose_nothing(model_, gaps_);
        continue;
      }
      if (last_->verdict != Verdict::kOverBudget) return false;
      if (round > 0) goal -= last_->peak - budget_;
      if (!reduce(choices, link_price, goal) && !swap_instead(choices)) return false;
    }
    return false;
  }

  // Whether any gap was made absent.
  bool reduce(Choices& choices, double link_price, Bytes goal) {
    find_host_use(choices);
    LoadTree load(last_->held);
    const auto lines = static_cast<std::uint32_t>(last_->held.size());
    StabbingQueue queue(lines, static_cast<std::uint32_t>(gaps_.size()));
    find_spans();
    const auto offer = [&](std::uint32_t gap) {
      const auto [price, means] = cheapest(choices, gap, link_price);
      const auto [first, last] = spans_[gap];
      if (price == Prices::kNever || first >= last) return;
      queue.put(gap, first, last, price);
    };
    for (std::uint32_t gap = 0; gap < gaps_.size(); ++gap) {
      if (choices[gap] == Means::kKeep) offer(gap);
    }
    bool is_changed = false;
    while (load.max() > goal) {
      const auto gap = queue.cheapest_at(load.argmax());
      if (!gap) break;
      const auto [price, means] = cheapest(choices, *gap, link_price);
      if (price > queue.price(*gap) * 1.0001) {  // it has become dearer since
        if (price == Prices::kNever) {
          queue.remove(*gap);
        } else {
          offer(*gap);
        }
        continue;
      }
      queue.remove(*gap);
      choices[*gap] = means;
      is_changed = true;
      if (means == Means::kSwap) note_swapped(gaps_[*gap].value);
      load.add(spans_[*gap].first, spans_[*gap].last,
               Bytes{-model_.values[gaps_[*gap].value].size.count});
    }
    return is_changed;
  }

  // Where the peak stands in a chain of clones, nothing around it can go: one of what the chain
  // computes is swapped instead. Whether there is any.
  bool swap_instead(Choices& choices) {
    const std::vector<PlannedLine>& lines = last_->lines;
    std::uint32_t first = last_->peak_line;
    while (first > 0 && lines[first - 1].is_clone) --first;
    std::uint32_t end = last_->peak_line;
    while (end < lines.size() && lines[end].is_clone) ++end;
    if (end == lines.size()) return false;
    const std::uint32_t operation = lines[end].operation;  // for which they are computed
    std::vector<std::uint32_t> found;
    for (std::uint32_t line = first; line < end; ++line) {
      const std::uint32_t value = lines[line].cloned;
      if (!model_.values[value].can_swap || !is_room_on_host(value)) continue;
      for (std::uint32_t gap = gap_starts_[value]; gap < gap_starts_[value + 1]; ++gap) {
        const bool is_there = gaps_[gap].after < operation &&
                              (gaps_[gap].is_tail() || operation <= gaps_[gap].before);
        if (is_there && choices[gap] == Means::kRecompute) found.push_back(gap);
      }
    }
    if (found.empty()) return false;
    choices[found[random_.below(static_cast<std::uint32_t>(found.size()))]] = Means::kSwap;
    return true;
  }

  void find_host_use(const Choices& choices) {
    is_swapped_.assign(model_.values.size(), false);
    host_use_ = Bytes{};
    for (std::size_t gap = 0; gap < gaps_.size(); ++gap) {
      if (choices[gap] == Means::kSwap) note_swapped(gaps_[gap].value);
    }
  }

  void note_swapped(std::uint32_t value) {
    if (!is_swapped_[value]) host_use_ += model_.values[value].size;
    is_swapped_[value] = true;
  }

  [[nodiscard]] bool is_room_on_host(std::uint32_t value) const {
    return !is_host_limited_ || is_swapped_[value] ||
           host_use_ + model_.values[value].size <= options_.host_budget;
  }

  // The price of a byte, in nanoseconds, and by which means.
  [[nodiscard]] std::pair<double, Means> cheapest(const Choices& choices, std::uint32_t gap,
                                                  double link_price) const {
    const Distortion distortion = distortions_.empty() ? Distortion{} : distortions_[gap];
    const double copies =
        is_room_on_host(gaps_[gap].value) ? prices_.of_swapping(gap) : Prices::kNever;
    const double swap = copies == Prices::kNever ? copies : link_price * copies * distortion.swap;
    const double again = prices_.of_computing_again(choices, gap) * distortion.recompute;
    if (again < swap) return {again, Means::kRecompute};
    return {swap, swap == Prices::kNever ? Means::kKeep : Means::kSwap};
  }

  // The lines between which a gap's bytes are not used, by the last evaluation.
  void find_spans() {
    find_lines();
    spans_.assign(gaps_.size(), {});
    for (std::uint32_t gap = 0; gap < gaps_.size(); ++gap) {
      if (gaps_[gap].is_tail()) continue;
      spans_[gap] = {line_of_[gaps_[gap].after] + 1, line_of_[gaps_[gap].before]};
    }
    for (const Extension& it : last_->extensions) {
      const std::uint32_t end = gap_starts_[it.value + 1];
      if (end > gap_starts_[it.value] && gaps_[end - 1].is_tail()) {
        spans_[end - 1] = {it.first, it.last};
      }
    }
  }

  // Where operations stand among the lines of the last evaluation.
  void find_lines() {
    line_of_.resize(model_.operations.size());
    for (std::uint32_t line = 0; line < last_->lines.size(); ++line) {
      if (!last_->lines[line].is_clone) line_of_[last_->lines[line].operation] = line;
    }
  }

  // Keeps what need not be absent, the dearest first.
  void trim(Choices& choices, double link_price) {
    find_lines();
    LoadTree load(last_->held);
    std::vector<std::pair<double, std::uint32_t>> absent;
    for (std::uint32_t gap = 0; gap < gaps_.size(); ++gap) {
      if (choices[gap] == Means::kKeep || gaps_[gap].is_tail()) continue;
      absent.emplace_back(-cheapest(choices, gap, std::max(link_price, 0.01)).first, gap);
    }
    std::sort(absent.begin(), absent.end());
    bool is_changed = false;
    for (const auto& [price, gap] : absent) {
      const Bytes size = model_.values[gaps_[gap].value].size;
      const std::uint32_t first = line_of_[gaps_[gap].after] + 1;
      const std::uint32_t last = line_of_[gaps_[gap].before];
      if (first >= last || load.max(first, last) + size > budget_) continue;
      load.add(first, last, size);
      choices[gap] = Means::kKeep;
      is_changed = true;
    }
    if (is_changed) try_out(choices);
  }

  // --- Search.

  void search() {
    const std::uint64_t lines = std::max<std::uint64_t>(1, model_.operations.size());
    const std::uint64_t usual = options_.evaluations
                                    ? *options_.evaluations
                                    : std::clamp<std::uint64_t>(kDefaultWork / lines, 20, 5000);
    const auto limit = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        usual * options_.effort, std::numeric_limits<std::uint32_t>::max()));
    const std::uint64_t end = std::uint64_t{evaluations_} + limit;
    find_alike_gaps();
    Choices choices;
    while (evaluations_ < end) {
      if (is_out_of_time()) return;
      if (options_.progress) {
        const auto left = static_cast<std::uint32_t>(end - evaluations_);
        options_.progress(limit - left, limit, best_.total);
      }
      const double price = kLinkPrices[random_.below(kLinkPrices.size())];
      // Mostly near the best; now and then from nothing, by other prices, because what is best may
      // have little in common with what is near.
      const bool is_fresh = random_.below(gaps_.size() <= kFewGaps ? 2 : 8) == 0;
      if (is_fresh) {
        distort_prices();
        choices = choose_nothing(model_, gaps_);
      } else {
        choices = best_.choices;
        change(choices);
      }
      plan_for(best_.budget);
      if (has_offsets_ && random_.below(4) == 0) {  // how much is best on the lines is not known
        const auto percent = static_cast<std::int64_t>(random_.below(7)) - 2;
        plan_for(std::min(options_.budget, Bytes{budget_.count / 100 * (100 + percent)}));
      }
      if (make_fit(choices, price, budget_)) trim(choices, price);
      if (is_fresh) distortions_.clear();
    }
  }

  void distort_prices() {
    distortions_.resize(gaps_.size());
    if (random_.below(2) == 0) {
      for (const std::vector<std::uint32_t>& alike : alike_) {
        const double swap = std::ldexp(1.0, static_cast<int>(random_.below(7)) - 3);
        const double again = std::ldexp(1.0, static_cast<int>(random_.below(7)) - 3);
        for (const std::uint32_t gap : alike) distortions_[gap] = {swap, again};
      }
      return;
    }
    for (Distortion& it : distortions_) {
      it.swap = std::ldexp(1.0, static_cast<int>(random_.below(7)) - 3);
      it.recompute = std::ldexp(1.0, static_cast<int>(random_.below(7)) - 3);
    }
  }

  // Some gaps, one by one or as many of a kind as there are in a stretch of the step.
  void change(Choices& choices) {
    const std::uint32_t way = random_.below(4);
    if (way == 0) {
      for (std::uint32_t i = 1U << random_.below(4); i > 0; --i) {
        set(choices, random_.below(static_cast<std::uint32_t>(gaps_.size())), any_means());
      }
    } else if (way == 1) {
      for (std::uint32_t i = 1U << random_.below(4); i > 0; --i) {
        const std::vector<std::uint32_t>& alike = pick_alike();
        set(choices, alike[random_.below(static_cast<std::uint32_t>(alike.size()))], any_means());
      }
    } else {
      for (std::uint32_t i = 1 + random_.below(2); i > 0; --i) {
        const std::vector<std::uint32_t>& alike = pick_alike();
        const auto count = static_cast<std::uint32_t>(alike.size());
        const std::uint32_t length = std::max(1U, count >> random_.below(4));
        const std::uint32_t first = random_.below(count - length + 1);
        const Means means = any_means();
        for (std::uint32_t k = first; k < first + length; ++k) set(choices, alike[k], means);
      }
    }
  }

  Means any_means() { return static_cast<Means>(random_.below(3)); }

  void set(Choices& choices, std::uint32_t gap, Means means) const {
    const StepModel::Value& value = model_.values[gaps_[gap].value];
    if (means == Means::kSwap && !value.can_swap) return;
    if (means == Means::kRecompute && !value.can_recompute) return;
    choices[gap] = means;
  }

  // The more bytes they have altogether, the more often.
  const std::vector<std::uint32_t>& pick_alike() {
    const double at = static_cast<double>(random_.next() >> 11U) * 0x1p-53 * weights_.back();
    const auto found = std::upper_bound(weights_.begin(), weights_.end() - 1, at);
    return alike_[static_cast<std::size_t>(found - weights_.begin())];
  }

  void find_alike_gaps() {
    alike_ = find_alike(model_, gaps_);
    double total = 0;
    for (const std::vector<std::uint32_t>& alike : alike_) {
      total += static_cast<double>(alike.size()) *
               static_cast<double>(model_.values[gaps_[alike[0]].value].size.count);
      weights_.push_back(total);
    }
  }

  const StepModel& model_;
  const std::vector<Gap>& gaps_;
  Link link_;
  const PlannerOptions& options_;
  Evaluator evaluator_;
  Prices prices_;
  Random random_;
  Bytes budget_;                           // of the lines that are tried
  bool has_offsets_ = false;               // what counts as the best
  std::vector<std::uint32_t> gap_starts_;  // by value
  std::vector<std::uint32_t> line_of_;     // by operation
  struct LineSpan {
    std::uint32_t first = 0;
    std::uint32_t last = 0;  // not included
  };
  std::vector<LineSpan> spans_;  // by gap
  struct Distortion {
    double swap = 1;
    double recompute = 1;
  };
  std::vector<Distortion> distortions_;  // of prices, by gap; empty: none
  const Evaluation* last_ = nullptr;
  bool counts_as_least_ = true;   // what is tried, where nothing fits
  bool is_host_limited_ = false;  // all that is swapped has room on the host at once
  std::vector<bool> is_swapped_;  // by value
  Bytes host_use_;                // of these
  PlannerResult best_;
  std::uint32_t evaluations_ = 0;
  std::vector<std::vector<std::uint32_t>> alike_;
  std::vector<double> weights_;  // of the first so many of these, in bytes
};

}  // namespace

PlannerResult choose(const StepModel& model, const std::vector<Gap>& gaps, const Link& link,
                     const PlannerOptions& options) {
  return Planner(model, gaps, link, options).run();
}

}  // namespace ebb
