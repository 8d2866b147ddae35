#include <array>

#include <fmt/format.h>

#include "ebb/graph/text_names.h"
#include "ebb/rewrite/lms_rewrite.h"

namespace ebb {
namespace {

constexpr std::array kRefusals = {
    LmsRefusal::kTooClose,       LmsRefusal::kNoTrigger,     LmsRefusal::kUpdated,
    LmsRefusal::kFixedView,      LmsRefusal::kOtherDevice,   LmsRefusal::kOtherScope,
    LmsRefusal::kAlreadySwapped, LmsRefusal::kSmall,         LmsRefusal::kOnHost,
    LmsRefusal::kVariable,       LmsRefusal::kOpaque,        LmsRefusal::kExcluded,
    LmsRefusal::kByRule,         LmsRefusal::kNotRecomputed,
};

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string swaps_text(const LmsPlan& plan) {
  if (plan.swaps.empty() && plan.recomputes.empty() && plan.refused.empty() &&
      plan.backward_operations > 0) {
    return "Nothing is swapped: the backward phase reads no tensor that the options let move.\n";
  }
  if (plan.swaps.empty()) return "Nothing is swapped.\n";
  const std::string unknown =
      plan.unknown_sizes == 0
          ? std::string()
          : fmt::format(", without {} of unknown size", counted(plan.unknown_sizes, "tensor"));
  const std::string plain =
      plan.not_encoded == 0
          ? std::string()
          : fmt::format("; {} as they are, which the codec does not take", plan.not_encoded);
  const std::string lossy =
      plan.is_lossy ? "The codec loses bits: training will differ from what it was\n" : "";
  return fmt::format("Swapped: {}, {}{}; {}{}\n{}", counted(plan.swaps.size(), "tensor"),
                     to_human(plan.bytes), unknown, counted(plan.swap_ins, "swap-in"), plain,
                     lossy);
}

std::string recomputes_text(const LmsPlan& plan) {
  if (plan.recomputes.empty()) return {};
  const std::string unknown =
      plan.unknown_recomputed == 0
          ? std::string()
          : fmt::format(", without {} of unknown size", counted(plan.unknown_recomputed, "tensor"));
  return fmt::format("Recomputed: {}, {}{}; {}\n", counted(plan.recomputes.size(), "tensor"),
                     to_human(plan.bytes_recomputed), unknown,
                     counted(plan.recomputations, "clone"));
}

std::string sync_text(const LmsPlan& plan) {
  if (plan.delays.empty() && plan.delays_refused == 0) return {};
  const std::string refused =
      plan.delays_refused == 0 ? std::string() : fmt::format("; {} refused", plan.delays_refused);
  return fmt::format("Sync: {} from swap-outs to later operations{}\n",
                     counted(plan.delays.size(), "control edge"), refused);
}

std::string peak_text(const Graph& original, const LmsRewritten& rewritten) {
  const auto text = [](const Graph& graph, const Peak& peak) {
    return fmt::format("{} at '{}'", to_human(peak.bytes), spelled(graph.name(peak.node)));
  };
  if (!rewritten.before.node.valid()) return {};
  std::string out = fmt::format("Peak before: {}", text(original, rewritten.before));
  if (rewritten.journal.empty()) return out + "\n";
  out += fmt::format("; after: {}; on the host: {}\n", text(rewritten.graph, rewritten.after),
                     to_human(rewritten.after.host));
  if (rewritten.after.bytes > rewritten.before.bytes) {
    out += "The peak is higher than before: tensors come back too early; try a smaller lb and ub\n";
  }
  return out;
}

// With the first edge of each reason, so that there is something to look at.
std::string refused_text(const Graph& graph, const LmsPlan& plan) {
  if (plan.refused.empty()) return {};
  std::array<std::size_t, kRefusals.size()> counts{};
  std::array<const LmsRefused*, kRefusals.size()> firsts{};
  for (const LmsRefused& refused : plan.refused) {
    const auto i = static_cast<std::size_t>(refused.reason);
    if (counts[i]++ == 0) firsts[i] = &refused;
  }
  const std::size_t not_recomputed = counts[static_cast<std::size_t>(LmsRefusal::kNotRecomputed)];
  std::string out =
      plan.refused.size() == not_recomputed
          ? std::string()
          : fmt::format("Left alone: {}\n", counted(plan.refused.size() - not_recomputed, "edge"));
  for (const LmsRefusal refusal : kRefusals) {
    const auto i = static_cast<std::size_t>(refusal);
    if (counts[i] == 0) continue;
    if (refusal == LmsRefusal::kNotRecomputed) {
      out += fmt::format("Not recomputed, but swapped where that was possible: {}\n",
                         counted(not_recomputed, "edge"));
    }
    out += fmt::format("{:>8}  {}; first: %{} for '{}'\n", counts[i], reason_of(*firsts[i]),
                       spelled(graph.name(firsts[i]->tensor)),
                       spelled(graph.name(firsts[i]->consumer)));
  }
  return out;
}

}  // namespace

std::string_view describe(LmsRefusal refusal) {
  switch (refusal) {
    case LmsRefusal::kTooClose:
      return "the reader follows too closely: no level of γ is between";
    case LmsRefusal::kNoTrigger:
      return "no trigger between lb and ub that the reader waits for";
    case LmsRefusal::kUpdated:
      return "its bytes are updated in place";
    case LmsRefusal::kFixedView:
      return "it has a view that cannot be made again on a copy";
    case LmsRefusal::kOtherDevice:
      return "producer and reader are on different devices";
    case LmsRefusal::kOtherScope:
      return "producer and reader are in different loops or branches";
    case LmsRefusal::kAlreadySwapped:
      return "it is swapped already";
    case LmsRefusal::kSmall:
      return "it is empty or smaller than min_bytes";
    case LmsRefusal::kOnHost:
      return "it is in host memory as it is";
    case LmsRefusal::kVariable:
      return "a variable holds it";
    case LmsRefusal::kOpaque:
      return "it is a handle or a text, not bytes of numbers";
    case LmsRefusal::kExcluded:
      return "excluded by scope or type";
    case LmsRefusal::kByRule:
      return "the swap rule does not apply";
    case LmsRefusal::kNotRecomputed:
      return "it cannot be computed again";
  }
  return "";
}

std::string_view reason_of(const LmsRefused& refused) {
  return refused.rule_says.empty() ? describe(refused.reason) : refused.rule_says;
}

std::string lms_summary(const Graph& original, const LmsRewritten& rewritten) {
  const LmsPlan& plan = rewritten.plan;
  std::string out = swaps_text(plan) + recomputes_text(plan);
  if (plan.backward_operations == 0) {
    out +=
        "Backward phase: none. No operation is under 'gradients', 'gradient_tape' or a scope in\n"
        "  optimizer_scopes; swap_branches and whole_graph still apply\n";
  } else {
    out += fmt::format("Backward phase: {}\n", counted(plan.backward_operations, "operation"));
  }
  out += sync_text(plan);
  out += peak_text(original, rewritten);
  out += refused_text(rewritten.graph, plan);
  return out;
}

}  // namespace ebb
