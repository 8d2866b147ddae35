#include "ebb/plan/evaluate.h"

#include <algorithm>

#include "ebb/plan/link_clock.h"

namespace ebb {
namespace {

// A value that a clone needed stays for its next use if that is so near.
constexpr std::uint32_t kNear = 8;
// Chains longer than this, and steps that grow by more than this, are no plans.
constexpr int kLongestChain = 256;
constexpr std::size_t kMostLines = 4;

}  // namespace

std::vector<Gap> find_gaps(const StepModel& model) {
  std::vector<bool> may_be_read_again(model.values.size());
  for (std::uint32_t i = 0; i < model.operations.size(); ++i) {
    const auto results = model.results_of(i);
    const bool may_run_again =
        std::any_of(results.begin(), results.end(),
                    [&](std::uint32_t value) { return model.values[value].can_recompute; });
    if (!may_run_again) continue;
    for (const std::uint32_t value : model.operands_of(i)) may_be_read_again[value] = true;
  }
  std::vector<Gap> gaps;
  for (std::uint32_t i = 0; i < model.values.size(); ++i) {
    const StepModel::Value& value = model.values[i];
    if (!value.can_swap && !value.can_recompute) continue;
    std::uint32_t after = value.producer;
    for (const std::uint32_t use : model.uses_of(i)) {
      if (after != kNone && use > after + 1) gaps.push_back({i, after, use});
      after = use;
    }
    if (may_be_read_again[i] && after != kNone) gaps.push_back({i, after, kNone});
  }
  return gaps;
}

std::vector<std::uint32_t> index_gaps(const StepModel& model, const std::vector<Gap>& gaps) {
  std::vector<std::uint32_t> starts;
  starts.reserve(model.values.size() + 1);
  std::uint32_t next = 0;
  for (std::uint32_t value = 0; value < model.values.size(); ++value) {
    starts.push_back(next);
    while (next < gaps.size() && gaps[next].value == value) ++next;
  }
  starts.push_back(next);
  return starts;
}

Choices choose_nothing(const StepModel& model, const std::vector<Gap>& gaps) {
  Choices choices(gaps.size(), Means::kKeep);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (gaps[i].is_tail() && model.values[gaps[i].value].can_recompute) {
      choices[i] = Means::kRecompute;
    }
  }
  return choices;
}

Evaluator::Evaluator(const StepModel& model, const std::vector<Gap>& gaps, const Link& link,
                     const EvaluateOptions& options)
    : model_(model),
      gaps_(gaps),
      link_(link),
      options_(options),
      first_gap_(index_gaps(model, gaps)) {}

const Evaluation& Evaluator::evaluate(const Choices& choices) {
  choices_ = &choices;
  if (!make_lines()) {
    out_.verdict = Verdict::kTooLong;
    return out_;
  }
  const bool fits = add_memory();
  out_.fits_host = fits_host();
  if (fits && out_.fits_host) {
    place_swap_ins();
    run();  // evaluate_time.cc
  }
  out_.verdict = !fits             ? Verdict::kOverBudget
                 : !out_.fits_host ? Verdict::kOverHostBudget
                                   : Verdict::kFits;
  return out_;
}

// --- 1. Lines.

bool Evaluator::make_lines() {
  out_.lines.clear();
  out_.ins.clear();
  out_.outs.clear();
  out_.reads.clear();
  out_.extensions.clear();
  out_.stays.clear();
  dropped_.clear();
  changes_.clear();
  transients_.clear();
  takes_.clear();
  line_of_.resize(model_.operations.size());
  states_.assign(model_.values.size(), State{});
  for (std::uint32_t i = 0; i < model_.values.size(); ++i) {
    const StepModel::Value& value = model_.values[i];
    if (value.producer == kNone) states_[i].is_present = true;
  }
  const std::size_t most = kMostLines * model_.operations.size() + 64;
  for (std::uint32_t k = 0; k < model_.operations.size(); ++k) {
    // What is absent from the start on is let go before anything runs.
    for (const std::uint32_t value : model_.operands_of(k)) {
      if (!bring(value, k, 0) || out_.lines.size() > most) return false;
    }
    const auto line = static_cast<std::uint32_t>(out_.lines.size());
    for (const std::uint32_t value : model_.operands_of(k)) read(value);
    out_.lines.push_back({k, false});
    line_of_[k] = line;
    transients_.push_back(model_.operations[k].workspace);
    takes_.push_back(model_.operations[k].takes);
    for (const std::uint32_t value : model_.results_of(k)) {
      State& state = states_[value];
      state.is_present = true;
      state.first_line = state.last_line = line;
    }
    for (const std::uint32_t value : model_.operands_of(k)) {
      ++states_[value].next_use;
      leave(value, k);
    }
    for (const std::uint32_t value : model_.results_of(k)) leave(value, k);
  }
  return true;
}

// The line that comes next reads the value, which is there.
void Evaluator::read(std::uint32_t value) {
  State& state = states_[value];
  const auto line = static_cast<std::uint32_t>(out_.lines.size());
  state.last_line = line;
  if (state.copy != kNone) out_.reads.push_back({line, value, state.copy, state.is_clone});
}

// After an operation that used the value: does it stay?
void Evaluator::leave(std::uint32_t value, std::uint32_t operation) {
  State& state = states_[value];
  const auto uses = model_.uses_of(value);
  if (state.next_use == uses.size()) {
    if (model_.values[value].stays) return;
    state.absent_by = Means::kKeep;
    end_stay(value);
    return;
  }
  // Gaps of a value are few; those without an operation inside are not among them.
  for (std::uint32_t gap = first_gap_[value]; gap < first_gap_[value + 1]; ++gap) {
    if (gaps_[gap].after != operation) continue;
    const Means means = (*choices_)[gap];
    if (means == Means::kKeep) return;
    state.absent_by = means;
    end_stay(value);
    return;
  }
}

void Evaluator::end_stay(std::uint32_t value) {
  State& state = states_[value];
  state.is_present = false;
  const Bytes size = model_.values[value].size;
  const std::size_t needed = state.last_line + std::size_t{2};
  if (changes_.size() < needed) changes_.resize(needed);
  changes_[state.first_line] += size;
  changes_[state.last_line + 1] -= size;
  add_stay(value, state.last_line);
  if (state.copy == kNone) {
    state.original_last = state.last_line;
    state.original_stay = state.stay;
  }
  if (state.absent_by == Means::kSwap && !state.is_swapped_out) add_swap_out(value);
  hand_over(value);
}

// Of the original, whose bytes may be needed by the copy after their last line.
void Evaluator::add_swap_out(std::uint32_t value) {
  State& state = states_[value];
  state.is_swapped_out = true;
  state.copied_out = static_cast<std::uint32_t>(out_.outs.size());
  out_.outs.push_back({value, 0});
  dropped_.push_back({value, state.original_last});
  if (state.is_original_taken) {  // not while it is copied
    transients_[state.original_last] += model_.values[value].size;
    states_[state.taken_by].took_at = kNone;
    state.is_original_taken = false;
    out_.stays[state.original_stay].is_taken = false;
  }
}

void Evaluator::add_stay(std::uint32_t value, std::uint32_t last) {
  State& state = states_[value];
  PlannedStay stay{.value = value, .first = state.first_line, .last = last};
  if (state.copy != kNone && !state.is_clone) stay.swap_in = state.copy;
  if (state.took_at == state.first_line) stay.taken_from = state.took_from;
  state.stay = static_cast<std::uint32_t>(out_.stays.size());
  out_.stays.push_back(stay);
}

Means Evaluator::means_of_tail(std::uint32_t value) const {
  const std::uint32_t end = first_gap_[value + 1];
  if (end > first_gap_[value] && gaps_[end - 1].is_tail()) return (*choices_)[end - 1];
  return Means::kRecompute;
}

// A result of the last line that used the value may lie where it lay; not while it is copied out.
void Evaluator::hand_over(std::uint32_t value) {
  State& state = states_[value];
  const std::uint32_t line = state.last_line;
  const bool is_original = state.copy == kNone;
  if (is_original && state.is_swapped_out) return;
  const std::uint32_t operation = out_.lines[line].operation;
  if (model_.values[value].producer == operation) return;
  for (const StepModel::TakeOver& it : model_.takeovers_of(operation)) {
    State& taker = states_[it.result];
    if (it.operand != value || taker.took_at == line) continue;
    // Of what a clone makes besides nothing is known here.
    if (out_.lines[line].is_clone && taker.copy != line) continue;
    transients_[line] -= model_.values[value].size;
    taker.took_at = line;
    taker.took_from = state.stay;
    out_.stays[state.stay].is_taken = true;
    state.taken_at = line;
    state.taken_by = it.result;
    state.is_original_taken = is_original;
    return;
  }
}

bool Evaluator::bring(std::uint32_t value, std::uint32_t operation, int depth) {
  State& state = states_[value];
  if (state.is_present) return true;
  const auto line = static_cast<std::uint32_t>(out_.lines.size());
  const bool is_dead = state.absent_by == Means::kKeep;
  Means means = is_dead ? means_of_tail(value) : state.absent_by;
  if (means == Means::kRecompute && !model_.values[value].can_recompute) means = Means::kKeep;
  if (means == Means::kSwap) {
    if (!state.is_swapped_out) add_swap_out(value);
    state.is_present = true;
    state.is_clone = false;
    state.copy = static_cast<std::uint32_t>(out_.ins.size());
    out_.ins.push_back({value, line, line, state.last_line + 1});
    state.first_line = state.last_line = line;
    return true;
  }
  if (means == Means::kKeep) {
    // Then it was not let go: its last stay goes on.
    out_.extensions.push_back({value, state.last_line + 1, line});
    out_.stays[state.stay].is_over = false;
    out_.stays[state.stay].is_taken = false;
    const Bytes size = model_.values[value].size;
    changes_[state.first_line] -= size;
    changes_[state.last_line + 1] += size;
    if (state.taken_at == state.last_line) {
      transients_[state.last_line] += size;
      states_[state.taken_by].took_at = kNone;
      state.taken_at = kNone;
      state.is_original_taken = false;
    }
    state.is_present = true;
    return true;
  }
  return emit_clone(value, operation, depth);
}

bool Evaluator::emit_clone(std::uint32_t value, std::uint32_t operation, int depth) {
  if (depth > kLongestChain || out_.lines.size() > kMostLines * model_.operations.size() + 64) {
    return false;
  }
  const std::uint32_t producer = model_.values[value].producer;
  for (const std::uint32_t operand : model_.operands_of(producer)) {
    if (!bring(operand, operation, depth + 1)) return false;
    ++states_[operand].awaited;  // and stays, if a clone for the next one reads it, too
  }
  const auto line = static_cast<std::uint32_t>(out_.lines.size());
  for (const std::uint32_t operand : model_.operands_of(producer)) {
    read(operand);
    --states_[operand].awaited;
  }
  out_.lines.push_back({producer, true, value});
  transients_.push_back(model_.operations[producer].workspace);
  takes_.push_back(model_.operations[producer].takes);
  if (const Bytes kept = model_.operations[producer].updated; kept > Bytes{}) {
    if (changes_.size() < line + std::size_t{2}) changes_.resize(line + std::size_t{2});
    // From above the original to the clone.
    changes_[line_of_[producer]] += kept;
    changes_[line + 1] -= kept;
    takes_[line_of_[producer]] += model_.operations[producer].keeping;
  }
  for (const std::uint32_t other : model_.results_of(producer)) {
    if (other != value) transients_.back() += model_.values[other].size;
  }
  State& state = states_[value];
  state.is_present = true;
  state.is_clone = true;
  state.copy = line;
  state.first_line = state.last_line = line;
  for (const std::uint32_t operand : model_.operands_of(producer)) {
    State& used = states_[operand];
    const auto uses = model_.uses_of(operand);
    if (model_.values[operand].stays || used.awaited > 0) continue;
    const bool is_done = used.next_use == uses.size();
    const bool is_near = !is_done && uses[used.next_use] <= operation + kNear;
    const bool was_absent = used.absent_by != Means::kKeep || is_done;
    if (is_done || (was_absent && used.copy != kNone && !is_near)) end_stay(operand);
  }
  return true;
}

// --- 2. Memory.

bool Evaluator::add_memory() {
  const std::size_t count = out_.lines.size();
  changes_.resize(count + 2);  // some, where nothing runs on the device
  for (std::uint32_t i = 0; i < model_.values.size(); ++i) {
    State& state = states_[i];
    // What stays, and what nobody uses.
    if (!state.is_present) continue;
    changes_[state.first_line] += model_.values[i].size;
    const bool stays = model_.values[i].stays;
    if (!stays) changes_[state.last_line + 1] -= model_.values[i].size;
    add_stay(i, stays ? static_cast<std::uint32_t>(count - 1) : state.last_line);
  }
  out_.held.resize(count);
  out_.peak = Bytes{};
  Bytes held;
  for (std::uint32_t line = 0; line < count; ++line) {
    held += changes_[line];
    out_.held[line] = held + transients_[line];
    if (out_.held[line] > out_.peak) {
      out_.peak = out_.held[line];
      out_.peak_line = line;
    }
  }
  return out_.peak <= options_.budget;
}

// --- 3. Swap-ins.

void Evaluator::place_swap_ins() {
  const std::size_t count = out_.lines.size();
  starts_.resize(count + 1);
  Duration now{};
  for (std::size_t line = 0; line < count; ++line) {
    starts_[line] = now;
    now += takes_[line];
  }
  starts_[count] = now;
  const bool meets = options_.clock == Clock::kRendezvous;
  Duration next_start = now;  // of the swap-in below
  for (std::size_t i = out_.ins.size(); i-- > 0;) {
    PlannedSwapIn& in = out_.ins[i];
    const Bytes size = model_.values[in.value].size;
    const Duration takes = copy_time(link_, size, CopyDirection::kToDevice, true);
    const Duration start = std::min(next_start, starts_[in.first_read]) - takes;
    std::uint32_t line = in.first_read;
    // By a rendezvous it can start only where the executor has stopped for another one: it is to be
    // asked for before that.
    const std::uint32_t stop = meets && i > 0 ? out_.ins[i - 1].first_read : kNone;
    while (line > in.earliest && (starts_[line] > start || line >= stop) &&
           out_.held[line - 1] + size <= options_.budget) {
      out_.held[--line] += size;
    }
    in.line = line;
    next_start = std::min(start, starts_[line]);
  }
}

bool Evaluator::fits_host() {
  changes_.assign(out_.lines.size() + 2, Bytes{});
  // From when the copy may begin to when the last one back has ended: order/liveness.h.
  for (const PlannedSwapOut& out : out_.outs) {
    const std::uint32_t producer = model_.values[out.value].producer;
    changes_[producer == kNone ? 0 : line_of_[producer]] += model_.values[out.value].size;
  }
  last_in_.assign(model_.values.size(), 0);
  for (const PlannedSwapIn& in : out_.ins) {
    last_in_[in.value] = std::max(last_in_[in.value], in.first_read);
  }
  for (const PlannedSwapOut& out : out_.outs) {
    changes_[last_in_[out.value] + 1] -= model_.values[out.value].size;
  }
  Bytes held;
  out_.host_peak = Bytes{};
  for (const Bytes change : changes_) {
    held += change;
    out_.host_peak = std::max(out_.host_peak, held);
  }
  return out_.host_peak <= options_.host_budget;
}

}  // namespace ebb
