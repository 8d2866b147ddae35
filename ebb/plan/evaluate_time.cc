// How long the lines take that an evaluation has made, and who waits for which copy.
#include <algorithm>
#include <optional>
#include <utility>

#include "ebb/plan/evaluate.h"
#include "ebb/plan/link_clock.h"

namespace ebb {

class Evaluator::Walk {
 public:
  explicit Walk(Evaluator& of)
      : of_(of), out_(of.out_), model_(of.model_), options_(of.options_), link_(of.link_) {
    out_.stalled.assign(model_.values.size(), Duration::zero());
    of_.out_copies_.assign(out_.outs.size(), {});
    of_.in_copies_.assign(out_.ins.size(), kNotStarted);
    of_.leaving_.clear();
    put_in_order();
  }

  void run() {
    start_outs(0);
    const auto count = static_cast<std::uint32_t>(out_.lines.size());
    for (std::uint32_t line = 0; line < count; ++line) {
      drop_above(line);
      make_room(line);
      take_in(line);
      wait_for_reads(line);
      now_ += of_.takes_[line];
      if (!out_.lines[line].is_clone) start_outs(out_.lines[line].operation + 1);
    }
    for (const CopyId copy : of_.out_copies_) now_ = std::max(now_, link_.end_of(copy));
    out_.total = now_;
  }

 private:
  static constexpr CopyId kNotStarted{CopyDirection::kToDevice, kNone};
  static constexpr Duration kForever = Duration::max();

  // Swap-outs in the order of what makes their values, swap-ins in that of their lines.
  void put_in_order() {
    std::stable_sort(of_.dropped_.begin(), of_.dropped_.end(),
                     [](const Dropped& a, const Dropped& b) { return a.last_line < b.last_line; });
    std::vector<std::uint32_t>& outs = of_.out_order_;
    std::vector<std::uint32_t>& ins = of_.in_order_;
    outs.resize(out_.outs.size());
    ins.resize(out_.ins.size());
    for (std::uint32_t i = 0; i < outs.size(); ++i) outs[i] = i;
    for (std::uint32_t i = 0; i < ins.size(); ++i) ins[i] = i;
    std::sort(outs.begin(), outs.end(), [&](std::uint32_t a, std::uint32_t b) {
      return producer(a) != producer(b) ? producer(a) < producer(b) : a < b;
    });
    std::sort(ins.begin(), ins.end(), [&](std::uint32_t a, std::uint32_t b) {
      return out_.ins[a].line != out_.ins[b].line ? out_.ins[a].line < out_.ins[b].line : a < b;
    });
  }

  // Of what a swap-out copies, plus one; 0: it is there from the start.
  [[nodiscard]] std::uint32_t producer(std::uint32_t out) const {
    return model_.values[out_.outs[out].value].producer + 1;
  }
  [[nodiscard]] Bytes size_of_out(std::uint32_t out) const {
    return model_.values[out_.outs[out].value].size;
  }

  void start_outs(std::uint32_t operation_plus_one) {
    const std::vector<std::uint32_t>& outs = of_.out_order_;
    while (next_out_ < outs.size() && producer(outs[next_out_]) == operation_plus_one) {
      const std::uint32_t out = outs[next_out_++];
      last_out_ = link_.add(CopyDirection::kToHost, size_of_out(out), now_);
      of_.out_copies_[out] = *last_out_;
    }
  }

  // The order in which swap-outs end.
  [[nodiscard]] auto ends() const {
    return [this](std::uint32_t a, std::uint32_t b) {
      return of_.out_copies_[a].index < of_.out_copies_[b].index;
    };
  }

  // Swap-outs whose bytes no line uses any more are leaving, until they are released; in the order
  // in which they end.
  void drop_above(std::uint32_t line) {
    while (next_dropped_ < of_.dropped_.size() && of_.dropped_[next_dropped_].last_line < line) {
      const std::uint32_t out = of_.states_[of_.dropped_[next_dropped_++].value].copied_out;
      of_.leaving_.insert(std::upper_bound(of_.leaving_.begin(), of_.leaving_.end(), out, ends()),
                          out);
      leaving_ += size_of_out(out);
    }
  }
  void make_room(std::uint32_t line) {
    while (!of_.leaving_.empty() && link_.ends_by(of_.out_copies_[of_.leaving_.front()], now_)) {
      release(0, line);
    }
    while (out_.held[line] + leaving_ > options_.budget && !of_.leaving_.empty()) release(0, line);
    out_.peak = std::max(out_.peak, out_.held[line] + leaving_);
  }

  void release(std::size_t index, std::uint32_t line) {
    const std::uint32_t out = of_.leaving_[index];
    of_.leaving_.erase(of_.leaving_.begin() + static_cast<std::ptrdiff_t>(index));
    leaving_ -= size_of_out(out);
    out_.outs[out].line = line;
    const CopyId copy = of_.out_copies_[out];
    if (!last_released_ || last_released_->index < copy.index) last_released_ = copy;
    const bool has_ended = link_.ends_by(copy, now_);
    wait(copy, out_.outs[out].value);
    // The edge to who waits comes behind the copies back.
    if (options_.clock == Clock::kRendezvous && !has_ended && last_in_) {
      wait(*last_in_, out_.outs[out].value);
    }
  }

  void take_in(std::uint32_t line) {
    const std::vector<std::uint32_t>& ins = of_.in_order_;
    for (; next_in_ < ins.size() && out_.ins[ins[next_in_]].line == line; ++next_in_) {
      const std::uint32_t out = of_.states_[out_.ins[ins[next_in_]].value].copied_out;
      const auto place = std::lower_bound(of_.leaving_.begin(), of_.leaving_.end(), out, ends());
      if (place != of_.leaving_.end() && *place == out) {
        release(static_cast<std::size_t>(place - of_.leaving_.begin()), line);
      }
      if (options_.clock == Clock::kRendezvous) {
        requested_.push_back({ins[next_in_], now_, last_released_, last_out_});
      } else {
        start({ins[next_in_], now_, last_released_, std::nullopt});
      }
    }
  }

  struct Requested {
    std::uint32_t in = 0;
    Duration asked{};                // when the device has done what it comes after
    std::optional<CopyId> released;  // whose bytes it takes
    std::optional<CopyId> behind;    // the copy out behind which the asking stands
  };

  void start(const Requested& it) {
    const PlannedSwapIn& in = out_.ins[it.in];
    std::vector<CopyId> after{of_.out_copies_[of_.states_[in.value].copied_out]};
    if (it.released) after.push_back(*it.released);
    if (it.behind) after.push_back(*it.behind);
    last_in_ =
        link_.add(CopyDirection::kToDevice, model_.values[in.value].size, now_, std::move(after));
    of_.in_copies_[it.in] = *last_in_;
  }

  // The executor stands still until then, and starts what is asked for meanwhile.
  void start_requested_until(Duration end) {
    const auto last = std::find_if(requested_.begin(), requested_.end(),
                                   [&](const Requested& it) { return it.asked >= end; });
    std::for_each(requested_.begin(), last, [&](const Requested& it) { start(it); });
    requested_.erase(requested_.begin(), last);
  }

  void wait_for_reads(std::uint32_t line) {
    for (; next_read_ < out_.reads.size() && out_.reads[next_read_].line == line; ++next_read_) {
      const PlannedRead& read = out_.reads[next_read_];
      if (read.is_clone) continue;
      if (of_.in_copies_[read.copy] == kNotStarted) start_requested_until(kForever);
      wait(of_.in_copies_[read.copy], read.value);
    }
  }

  void wait(CopyId copy, std::uint32_t value) {
    if (!requested_.empty()) {
      start_requested_until(link_.ends_by(copy, now_) ? link_.end_of(copy) : kForever);
    }
    const Duration end = link_.end_of(copy);
    if (end <= now_) return;
    out_.stalled[value] += end - now_;
    now_ = end;
  }

  Evaluator& of_;
  Evaluation& out_;
  const StepModel& model_;
  const EvaluateOptions& options_;
  LinkClock link_;
  Duration now_{};
  std::size_t next_out_ = 0;
  std::size_t next_in_ = 0;
  std::size_t next_read_ = 0;
  std::size_t next_dropped_ = 0;
  Bytes leaving_;  // of all that are
  std::optional<CopyId> last_in_;
  std::optional<CopyId> last_out_;
  std::optional<CopyId> last_released_;
  std::vector<Requested> requested_;  // swap-ins that TensorFlow has not asked for yet
};

void Evaluator::run() { Walk(*this).run(); }

}  // namespace ebb
