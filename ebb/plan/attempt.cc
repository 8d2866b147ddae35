#include "ebb/plan/attempt.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ebb/base/check.h"
#include "ebb/graph/text_names.h"
#include "ebb/plan/decide.h"
#include "ebb/plan/evaluate.h"
#include "ebb/plan/hold.h"
#include "ebb/plan/infeasible.h"
#include "ebb/plan/may_do.h"
#include "ebb/plan/planner.h"
#include "ebb/plan/simulate.h"
#include "ebb/plan/splits.h"
#include "ebb/plan/step_model.h"
#include "ebb/rewrite/proof.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {
namespace {

constexpr int kMostAttempts = 12;  // at a layout that fits
constexpr int kMostRefusals = 200;

// That all copies that a plan could ever make end at some time.
Status check_copies(const StepModel& model, const Link& link) {
  constexpr Duration kLongest{std::int64_t{1} << 58};  // 9 years
  Duration total{0};
  for (const StepModel::Value& value : model.values) {
    if (!value.can_swap) continue;
    const Duration copy = std::max(copy_time(link, value.size, CopyDirection::kToHost, true),
                                   copy_time(link, value.size, CopyDirection::kToDevice, true));
    if (copy > (kLongest - total) / (1 + static_cast<std::int64_t>(value.use_count))) {
      return fail(ErrorKind::kBadInput,
                  "to copy every tensor to the host and back would take more than nine years; is "
                  "the link of the device as slow as its file says?");
    }
    total += copy * (1 + static_cast<std::int64_t>(value.use_count));
  }
  return {};
}

void fill_in(Plan& plan, const PlanTask& task) {
  PlanFile& file = plan.file;
  file.device = task.device.name;
  file.budget = task.options.budget;
  file.host_budget = task.options.host_budget;
  file.peak = plan.arena.size;
  file.host = plan.arena.host_size;
  file.step = plan.timeline.total;
  file.unconstrained = task.unconstrained_step;
  if (is_tensorflow(task.options.clock)) return;
  const Graph& graph = plan.graph;
  for (const NodeId node : graph.order()) {
    for (const TensorId result : graph.results(node)) {
      const StorageId storage = graph.storage(result);
      if (graph.root(storage) != result || graph.size(storage).value_or(Bytes{}) == Bytes{}) {
        continue;
      }
      file.tensors.push_back(
          {.name = spelled(graph.name(result)), .at = plan.arena.storages[storage.index()]});
    }
    if (plan.costs.workspace[node.index()].count > 0) {
      file.workspaces.push_back(
          {.name = spelled(graph.name(node)), .at = plan.arena.workspaces[node.index()]});
    }
  }
}

// Of a plan with its graph and its decisions.
void finish(Plan& plan, const PlanTask& task) {
  plan.costs = estimate_costs(plan.graph, task.device, task.options.profile).value();
  plan.timeline = simulate(plan.graph, plan.costs, task.options.clock);
  plan.arena = arrange_step(plan.graph, plan.costs, plan.timeline, task.device, task.options.clock,
                            task.options.budget);
  fill_in(plan, task);
}

// A plan for the step with some of its calls split, by keeping, swapping and computing again.
class Attempt {
 public:
  Attempt(const PlanTask& task, const std::vector<NodeId>& splits)
      : original_(task.graph),
        splits_(splits),
        graph_(with_splits(task.graph, splits)),
        device_(task.device),
        options_(task.options),
        task_(task) {}

  Result<PlanOutcome> run() {
    if (Status ok = look_at_graph(); !ok) return fail(ok.error());
    refusals_ = ask_rules(graph_, model_);
    search();
    out_.evaluations = evaluations_;
    return std::move(out_);
  }

  // The plan of a file that makes these splits; `rewritten` is the graph after all its decisions.
  Result<std::unique_ptr<Plan>> take(const PlanFile& file, Graph rewritten) {
    if (Status ok = look_at_graph(); !ok) return fail(ok.error());
    auto plan = std::make_unique<Plan>();
    plan->graph = std::move(rewritten);
    plan->file.fingerprint = file.fingerprint;
    plan->file.decisions = file.decisions;
    plan->model = model_;
    plan->gaps = find_gaps(model_);
    finish(*plan, task_);
    return plan;
  }

 private:
  Status look_at_graph() {
    auto costs = estimate_costs(graph_, device_, options_.profile);
    if (!costs) return fail(costs.error());
    auto model = model_step(graph_, *costs,
                            {.alignment = device_.alignment,
                             .min_bytes = options_.min_bytes,
                             .may_swap = options_.may_swap,
                             .may_recompute = options_.may_recompute});
    if (!model) return fail(model.error());
    link_ = costs->link;
    model_ = std::move(*model);
    return check_copies(model_, link_);
  }

  void search() {
    out_.least = keep_all();  // which no rule refuses
    if (fits(*out_.least, options_)) {
      out_.plan = std::move(out_.least);
    } else {
      find_plan();
    }
    if (!out_.plan || task_.is_confirming) {
      out_.why = explain_peak(out_.best(), model_, refusals_, options_);
    }
    out_.host_is_short =
        !out_.plan && options_.host_budget && (is_host_full_ || fits_with_more_on_host());
  }

  void find_plan() {
    is_host_full_ = out_.least->arena.host_size > options_.host_budget.value_or(kNoLimit);
    if (try_with_host(kNoLimit) || !options_.host_budget) return;
    if (try_with_host(*options_.host_budget)) return;
    // And as if nothing could be swapped.
    const StepModel all = model_;
    for (StepModel::Value& value : model_.values) value.can_swap = false;
    try_with_host(*options_.host_budget);
    model_ = all;
  }

  // Search may lead to plans whose offsets do not fit, where those of greed do. A plan that is
  // found without regard to the host is as good as another if it needs no more there.
  bool try_with_host(Bytes host_budget) {
    return try_plans(options_.evaluations, host_budget) || try_plans(0, host_budget);
  }

  // Lays out what the planner chooses. Where the offsets need more than the lines, it is asked for
  // something else, of which they fit; where it knows of nothing, or offsets do not matter, it gets
  // less the next time. Whether there is a plan in the end.
  bool try_plans(std::optional<std::uint32_t> evaluations, Bytes host_budget) {
    Bytes budget = options_.budget;
    Bytes room = options_.budget;
    std::optional<Choices> too_large;  // their offsets
    Bytes lines;                       // of those
    Bytes over;
    int refusals = 0;
    for (int attempt = 0; attempt < kMostAttempts;) {
      const std::vector<Gap> gaps = find_gaps(model_);
      const PlannerResult chosen = choose(model_, gaps, link_,
                                          {.budget = budget,
                                           .host_budget = host_budget,
                                           .clock = options_.clock,
                                           .evaluations = evaluations,
                                           .effort = options_.effort,
                                           .seed = options_.seed,
                                           .start = too_large ? &*too_large : nullptr,
                                           .room = room,
                                           .alignment = device_.alignment,
                                           .progress = options_.progress,
                                           .is_out_of_time = options_.is_out_of_time});
      evaluations_ += chosen.evaluations;
      if (too_large && !chosen.fits) {
        budget = lowered(budget, lines, over, attempt++);
        too_large.reset();
        continue;
      }
      std::unique_ptr<Plan> plan = make(gaps, chosen, chosen.fits ? chosen.budget : chosen.peak);
      if (!plan) {
        too_large.reset();  // it may have what was refused
        if (++refusals > kMostRefusals) return false;
        continue;
      }
      if (fits(*plan, options_)) {
        out_.plan = std::move(plan);
        return true;
      }
      over = plan->arena.size - options_.budget;
      const Bytes host_over = plan->arena.host_size - options_.host_budget.value_or(kNoLimit);
      if (host_over.count <= 0 && plan->arena.size < out_.least->arena.size) {
        out_.least = std::move(plan);
      }
      if (!chosen.fits) return false;
      if (over.count <= 0 && host_budget == kNoLimit)
        return false;  // the host is all that is short
      lines = chosen.peak;
      if (over.count > 0 && !is_tensorflow(options_.clock)) {
        // The planner's own look at the offsets misses by little.
        if (too_large) room = budget = lowered(budget, budget, over, attempt);
        too_large = chosen.choices;
      } else if (over.count > 0) {
        budget = lowered(budget, lines, over, attempt);
      }
      if (host_over.count > 0 && host_budget != kNoLimit) {
        host_budget = lowered(host_budget, host_budget, host_over, attempt);
      }
      ++attempt;
    }
    return false;
  }

  [[nodiscard]] std::unique_ptr<Plan> keep_all() {
    const std::vector<Gap> gaps = find_gaps(model_);
    PlannerResult nothing;
    nothing.choices = choose_nothing(model_, gaps);
    return make(gaps, nothing, kNoLimit);
  }

  [[nodiscard]] bool fits_with_more_on_host() const {
    const std::vector<Gap> gaps = find_gaps(model_);
    return choose(model_, gaps, link_, {.budget = options_.budget, .evaluations = 0}).fits;
  }

  // Below what was planned last, and by more each time: what offsets need beyond the lines jumps up
  // and down a little from plan to plan.
  static Bytes lowered(Bytes budget, Bytes planned, Bytes over, int attempt) {
    const std::int64_t step = std::max(over.count, budget.count / 4096) << (attempt / 2);
    return Bytes{std::min(budget, planned).count - step};
  }

  // The rewritten graph, laid out and simulated; or nothing, when a rule has refused a choice, and
  // the model then knows.
  std::unique_ptr<Plan> make(const std::vector<Gap>& gaps, const PlannerResult& chosen,
                             Bytes budget) {
    Evaluator evaluator(model_, gaps, link_, {.budget = budget, .clock = options_.clock});
    const Evaluation& evaluation = evaluator.evaluate(chosen.choices);
    auto made = std::make_unique<Plan>();
    Plan& plan = *made;
    plan.graph = original_;
    Rewriter rewriter(plan.graph);
    // Ids come out as in the graph of the model.
    for (const NodeId call : splits_) {
      const Status done = rewriter.apply(SplitDecision{call});
      EBB_CHECK(done.has_value(), "what was split was refused: {}", done.error().message);
    }
    if (const auto refused = apply_choices(model_, evaluation, rewriter)) {
      StepModel::Value& value = model_.values[refused->value];
      if (refused->means == Means::kSwap) {
        value.can_swap = false;
        refusals_.swap[refused->value] = refused->why;
      } else {
        value.can_recompute = false;
        refusals_.recompute[refused->value] = refused->why;
      }
      return nullptr;
    }
    rewriter.settle();
    if (is_tensorflow(options_.clock)) plan.held = hold(rewriter);
    prove_rewrite(original_, plan.graph);
    plan.model = model_;
    plan.gaps = gaps;
    plan.choices = chosen.choices;
    plan.evaluated_for = budget;
    plan.file = plan_of(original_, plan.graph, rewriter.journal());
    finish(plan, task_);
    return made;
  }

  Held hold(Rewriter& rewriter) const {
    constexpr std::int64_t kParts = 2048;  // of the budget: what is smaller is not worth an edge
    const auto costs = estimate_costs(rewriter.graph(), device_, options_.profile);
    return hold_to_lines(rewriter, costs.value().workspace,
                         {.budget = options_.budget,
                          .large = Bytes{options_.budget.count / kParts},
                          .runs_as_a_whole = options_.runs_as_a_whole});
  }

  const Graph& original_;
  const std::vector<NodeId>& splits_;
  const Graph graph_;  // with these
  const Device& device_;
  const PlanOptions& options_;
  const PlanTask& task_;
  Link link_;
  StepModel model_;
  Refusals refusals_;
  PlanOutcome out_;
  std::uint32_t evaluations_ = 0;
  bool is_host_full_ = false;  // of what the step itself has there
};

}  // namespace

Result<PlanOutcome> attempt_plan(const PlanTask& task, const std::vector<NodeId>& splits) {
  return Attempt(task, splits).run();
}

Result<std::unique_ptr<Plan>> take_plan(const PlanTask& task, const std::vector<NodeId>& splits,
                                        const PlanFile& file, Graph rewritten) {
  return Attempt(task, splits).take(file, std::move(rewritten));
}

bool fits(const Plan& plan, const PlanOptions& options) {
  return plan.arena.size <= options.budget &&
         plan.arena.host_size <= options.host_budget.value_or(kNoLimit);
}

Arena arrange_step(const Graph& graph, const StepCosts& costs, const Timeline& timeline,
                   const Device& device, Clock clock, Bytes budget) {
  if (!is_tensorflow(clock)) {
    return arrange(graph, needs_of(graph, costs.workspace),
                   {.alignment = device.alignment, .budget = budget});
  }
  Arena arena;
  arena.size = arena.bound = timeline.device_peak;
  arena.host_size = arena.host_bound = timeline.host_peak;
  return arena;
}

}  // namespace ebb
