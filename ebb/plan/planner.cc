#include "ebb/plan/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ebb/plan/load_tree.h"
#include "ebb/plan/stabbing_queue.h"

namespace ebb {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// What a copy's time costs, from nothing, where the link has time to spare, to all of it.
constexpr std::array kLinkPrices = {0.0, 0.03, 0.1, 0.25, 0.5, 1.0};
constexpr int kMostRounds = 12;
constexpr std::size_t kFewGaps = 64;
constexpr int kLongestGuess = 12;  // of a chain whose cost is guessed
// Lines that search may simulate altogether: about a second.
constexpr std::uint64_t kDefaultWork = 6'000'000;

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
        random_(options.seed),
        gap_starts_(model.values.size() + 1) {
    std::uint32_t next = 0;
    for (std::uint32_t value = 0; value < model.values.size(); ++value) {
      gap_starts_[value] = next;
      while (next < gaps.size() && gaps[next].value == value) ++next;
    }
    gap_starts_.back() = next;
    best_.peak = kNoLimit;
  }

  PlannerResult run() {
    const Choices nothing = choose_nothing(model_, gaps_);
    best_.choices = nothing;
    if (try_out(nothing)) return finished();
    // Where nothing fits, all that can go may have to, so that chains need less.
    for (const int part : {4, 3, 2, 0}) {
      // What is tried then does not depend on the budget, so that the least that is found is found
      // again by who asks for it.
      counts_as_least_ = part == 0;
      const Bytes goal{options_.budget.count / 4 * part};
      for (const double price : kLinkPrices) {
        Choices choices = nothing;
        if (make_fit(choices, price, goal)) trim(choices, price);
      }
      if (best_.fits) break;
    }
    if (best_.fits) search();
    return finished();
  }

 private:
  PlannerResult finished() {
    best_.evaluations = evaluations_;
    return std::move(best_);
  }

  // Simulates, and keeps the best. Whether it fits.
  bool try_out(const Choices& choices) {
    ++evaluations_;
    const Evaluation& it = evaluator_.evaluate(choices);
    const bool fits = it.verdict == Verdict::kFits;
    const bool is_better = fits ? !best_.fits || it.total < best_.total
                                : !best_.fits && it.verdict == Verdict::kOverBudget &&
                                      it.fits_host && counts_as_least_ && it.peak < best_.peak;
    if (is_better) {
      best_.fits = fits;
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
      if (round > 0) goal -= last_->peak - options_.budget;
      if (!reduce(choices, link_price, goal)) return false;
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
      if (price == kNever || first >= last) return;
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
        if (price == kNever) {
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
  std::pair<double, Means> cheapest(const Choices& choices, std::uint32_t gap, double link_price) {
    const StepModel::Value& value = model_.values[gaps_[gap].value];
    const auto size = static_cast<double>(value.size.count);
    const Distortion distortion = distortions_.empty() ? Distortion{} : distortions_[gap];
    double price = kNever;
    Means means = Means::kKeep;
    if (value.can_swap && is_room_on_host(gaps_[gap].value)) {
      const Duration copies = copy_time(link_, value.size, CopyDirection::kToHost) +
                              copy_time(link_, value.size, CopyDirection::kToDevice);
      price = link_price * static_cast<double>(copies.count()) / size * distortion.swap;
      means = Means::kSwap;
    }
    if (value.can_recompute) {
      const std::uint32_t before = gaps_[gap].is_tail() ? kNone : gaps_[gap].before;
      const Chain chain = guess_chain(choices, gaps_[gap].value, before, 0);
      const double saved = size - chain.kept;
      const double again = saved > 0 ? chain.takes / saved * distortion.recompute : kNever;
      if (again < price) {
        price = again;
        means = Means::kRecompute;
      }
    }
    return {price, means};
  }

  // A guess at what it takes to compute a value again for an operation: how long, and how many
  // bytes are kept for it.
  struct Chain {
    double takes = 0;
    double kept = 0;
  };
  // NOLINTNEXTLINE(misc-no-recursion)
  Chain guess_chain(const Choices& choices, std::uint32_t value, std::uint32_t operation,
                    int depth) {
    if (depth > kLongestGuess) return {.takes = kNever};
    const std::uint32_t producer = model_.values[value].producer;
    const StepModel::Operation& it = model_.operations[producer];
    Chain chain{.takes = static_cast<double>((it.takes + it.keeping).count()),
                .kept = static_cast<double>(it.updated.count)};
    for (const std::uint32_t operand : model_.operands_of(producer)) {
      const StepModel::Value& read = model_.values[operand];
      switch (how_it_is_there(choices, operand, operation)) {
        case Presence::kThere:
          break;
        case Presence::kKept:
          chain.kept += static_cast<double>(read.size.count);
          break;
        case Presence::kComputedAgain: {
          const Chain more = guess_chain(choices, operand, operation, depth + 1);
          chain.takes += more.takes;
          chain.kept += more.kept;
        }
      }
      if (chain.takes == kNever) return chain;
    }
    return chain;
  }

  enum class Presence : std::uint8_t { kThere, kKept, kComputedAgain };

  // Of the value, for an operation that computes something again; kNone: at the end.
  [[nodiscard]] Presence how_it_is_there(const Choices& choices, std::uint32_t value,
                                         std::uint32_t operation) const {
    const auto uses = model_.uses_of(value);
    const StepModel::Value& it = model_.values[value];
    if (it.stays) return Presence::kThere;
    const std::uint32_t end = gap_starts_[value + 1];
    const bool has_tail = end > gap_starts_[value] && gaps_[end - 1].is_tail();
    if (uses.empty() || uses.back() < operation) {
      const Means means = has_tail ? choices[end - 1] : Means::kRecompute;
      if (means == Means::kSwap) return Presence::kThere;
      return means == Means::kRecompute && it.can_recompute ? Presence::kComputedAgain
                                                            : Presence::kKept;
    }
    for (std::uint32_t gap = gap_starts_[value]; gap < gap_starts_[value + 1]; ++gap) {
      if (gaps_[gap].after < operation && operation < gaps_[gap].before) {
        return choices[gap] == Means::kRecompute ? Presence::kComputedAgain : Presence::kThere;
      }
    }
    return Presence::kThere;
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
      if (first >= last || load.max(first, last) + size > options_.budget) continue;
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
    Choices choices;
    while (evaluations_ < end) {
      if (options_.is_out_of_time && options_.is_out_of_time()) return;
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
      if (make_fit(choices, price, options_.budget)) trim(choices, price);
      if (is_fresh) distortions_.clear();
    }
  }

  void distort_prices() {
    distortions_.resize(gaps_.size());
    for (Distortion& it : distortions_) {
      it.swap = std::ldexp(1.0, static_cast<int>(random_.below(7)) - 3);
      it.recompute = std::ldexp(1.0, static_cast<int>(random_.below(7)) - 3);
    }
  }

  // One gap in some number of them, from one to many.
  void change(Choices& choices) {
    const auto count = static_cast<std::uint32_t>(gaps_.size());
    const std::uint32_t changes = 1U << random_.below(4);
    for (std::uint32_t i = 0; i < changes; ++i) {
      const std::uint32_t gap = random_.below(count);
      const StepModel::Value& value = model_.values[gaps_[gap].value];
      switch (random_.below(3)) {
        case 0:
          choices[gap] = Means::kKeep;
          break;
        case 1:
          if (value.can_swap) choices[gap] = Means::kSwap;
          break;
        default:
          if (value.can_recompute) choices[gap] = Means::kRecompute;
      }
    }
  }

  const StepModel& model_;
  const std::vector<Gap>& gaps_;
  Link link_;
  const PlannerOptions& options_;
  Evaluator evaluator_;
  Random random_;
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
};

}  // namespace

PlannerResult choose(const StepModel& model, const std::vector<Gap>& gaps, const Link& link,
                     const PlannerOptions& options) {
  return Planner(model, gaps, link, options).run();
}

}  // namespace ebb
