#include "ebb/plan/explain.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/base/nearest.h"
#include "ebb/graph/text_names.h"

namespace ebb {
namespace {

std::string_view done(Means means) {
  switch (means) {
    case Means::kKeep:
      return "kept";
    case Means::kSwap:
      return "swapped";
    case Means::kRecompute:
      return "computed again";
  }
  return "?";
}

class Explainer {
 public:
  explicit Explainer(const Planned& planned)
      : plan_(*planned.plan),
        graph_(plan_.graph),
        budget_(budget_of(planned)),
        limit_(limit_of(planned, budget_)),
        evaluator_(plan_.model, plan_.gaps, plan_.costs.link,
                   {.budget = budget_, .host_budget = plan_.file.host_budget.value_or(kNoLimit)}),
        total_(evaluator_.evaluate(plan_.choices).total) {}

  std::string explain(TensorId tensor) {
    const StorageId storage = graph_.storage(tensor);
    const TensorId root = graph_.root(storage);
    out_ = fmt::format("%{}: {}", spelled(graph_.name(root)),
                       to_human(graph_.size(storage).value_or(Bytes{})));
    const NodeId maker = graph_.producer(root);
    if (graph_.is_op(maker)) out_ += fmt::format(", made by '{}'", graph_.name(maker));
    if (root != tensor) out_ += fmt::format("; %{} is a view of it", spelled(graph_.name(tensor)));
    out_ += '\n';
    const auto& values = plan_.model.values;
    const auto value = std::find_if(values.begin(), values.end(), [&](const StepModel::Value& it) {
      return it.storage == storage;
    });
    if (value == values.end()) {
      out_ += "  it is on the host\n";
      return out_;
    }
    bool has_gap = false;
    for (std::size_t gap = 0; gap < plan_.gaps.size(); ++gap) {
      if (&values[plan_.gaps[gap].value] != &*value) continue;
      has_gap = explain_gap(gap, *value) || has_gap;
    }
    if (!has_gap) out_ += fmt::format("  kept: {}\n", why_always(*value));
    return out_;
  }

 private:
  // The one by which the plan was chosen. The model may count a little more than the plan needs.
  static Bytes budget_of(const Planned& planned) {
    const Plan& plan = *planned.plan;
    Evaluator without_limit(plan.model, plan.gaps, plan.costs.link, {.budget = kNoLimit});
    const Bytes peak = without_limit.evaluate(plan.choices).peak;
    return std::min(plan.evaluated_for, std::max(planned.budget, peak));
  }

  static std::string limit_of(const Planned& planned, Bytes budget) {
    if (budget >= planned.budget) return "the budget";
    return fmt::format("the {} for which offsets fit", to_human(budget));
  }

  std::string operation(std::uint32_t index) const {
    return fmt::format("'{}'", graph_.name(plan_.model.operations[index].node));
  }

  // Whether there is something to say.
  bool explain_gap(std::size_t index, const StepModel::Value& value) {
    const Gap& gap = plan_.gaps[index];
    const Means chosen = plan_.choices[index];
    if (gap.is_tail()) return false;
    out_ += fmt::format("  from {} to {}: {}\n", operation(gap.after), operation(gap.before),
                        done(chosen));
    for (const Means means : {Means::kKeep, Means::kSwap, Means::kRecompute}) {
      if (means == chosen) continue;
      out_ += fmt::format("    {} instead: {}\n", done(means), instead(index, means, value));
    }
    return true;
  }

  std::string instead(std::size_t gap, Means means, const StepModel::Value& value) {
    if (means == Means::kSwap && !value.can_swap) return "cannot be";
    if (means == Means::kRecompute && !value.can_recompute) return "cannot be";
    Choices choices = plan_.choices;
    choices[gap] = means;
    const Evaluation& it = evaluator_.evaluate(choices);
    switch (it.verdict) {
      case Verdict::kFits: {
        const Duration more = it.total - total_;
        if (more == Duration::zero()) return "the same time";
        return fmt::format("{}, {} {}", to_human(it.total),
                           to_human(more < Duration::zero() ? -more : more),
                           more > Duration::zero() ? "longer" : "shorter");
      }
      case Verdict::kOverBudget:
        return fmt::format("{} at {}, {} over {}", to_human(it.peak),
                           operation(it.lines[it.peak_line].operation), to_human(it.peak - budget_),
                           limit_);
      case Verdict::kOverHostBudget:
        return fmt::format("{} on the host, over its budget", to_human(it.host_peak));
      case Verdict::kTooLong:
        return "a chain without end";
    }
    return "?";
  }

  static std::string_view why_always(const StepModel::Value& value) {
    if (value.stays) return "a parameter, a constant, or returned by the step";
    if (value.use_count == 0) return "nobody reads it, and it goes at once";
    if (!value.can_swap && !value.can_recompute) return "the rules do not let it go";
    return "there is nothing between its uses";
  }

  const Plan& plan_;
  const Graph& graph_;  // the rewritten one: ids of the original mean the same there
  Bytes budget_;
  std::string limit_;  // in words
  Evaluator evaluator_;
  Duration total_;
  std::string out_;
};

}  // namespace

Result<TensorId> find_explained(const Graph& graph, std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  const TensorId tensor = graph.find_tensor(name);
  if (!tensor.valid()) {
    NearestWord nearest(name);
    for (const TensorId each : graph.tensors()) nearest.offer(graph.name(each));
    return fail(ErrorKind::kUsage,
                fmt::format("there is no tensor %{}{}", spelled(name), nearest.hint()));
  }
  return tensor;
}

Result<std::string> explain_tensor(const Graph& graph, const Planned& planned,
                                   std::string_view name) {
  const auto tensor = find_explained(graph, name);
  if (!tensor) return fail(tensor.error());
  if (!planned.plan) return fail(ErrorKind::kInfeasible, "there is no plan to explain");
  EBB_CHECK(planned.plan->choices.size() == planned.plan->gaps.size(),
            "a plan from a file does not know what was chosen");
  return Explainer(planned).explain(*tensor);
}

}  // namespace ebb
