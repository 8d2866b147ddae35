#include "ebb/plan/prices.h"

namespace ebb {
namespace {

constexpr int kLongestGuess = 12;  // of a chain whose cost is guessed

}  // namespace

double Prices::of_swapping(std::uint32_t gap) const {
  const StepModel::Value& value = model_.values[gaps_[gap].value];
  if (!value.can_swap) return kNever;
  const Duration copies = copy_time(link_, value.size, CopyDirection::kToHost) +
                          copy_time(link_, value.size, CopyDirection::kToDevice);
  return static_cast<double>(copies.count()) / static_cast<double>(value.size.count);
}

double Prices::of_computing_again(const Choices& choices, std::uint32_t gap) const {
  const StepModel::Value& value = model_.values[gaps_[gap].value];
  if (!value.can_recompute) return kNever;
  const std::uint32_t before = gaps_[gap].is_tail() ? kNone : gaps_[gap].before;
  const Chain chain = guess_chain(choices, gaps_[gap].value, before, 0);
  const double saved = static_cast<double>(value.size.count) - chain.kept;
  return saved > 0 ? chain.takes / saved : kNever;
}

// NOLINTNEXTLINE(misc-no-recursion)
Prices::Chain Prices::guess_chain(const Choices& choices, std::uint32_t value,
                                  std::uint32_t operation, int depth) const {
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

Prices::Presence Prices::how_it_is_there(const Choices& choices, std::uint32_t value,
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
  for (std::uint32_t gap = gap_starts_[value]; gap < end; ++gap) {
    if (gaps_[gap].after < operation && operation < gaps_[gap].before) {
      return choices[gap] == Means::kRecompute ? Presence::kComputedAgain : Presence::kThere;
    }
  }
  return Presence::kThere;
}

}  // namespace ebb
