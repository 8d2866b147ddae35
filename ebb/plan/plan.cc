#include "ebb/plan/plan.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/text_names.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/decide.h"
#include "ebb/plan/evaluate.h"
#include "ebb/plan/may_do.h"
#include "ebb/plan/planner.h"
#include "ebb/plan/simulate.h"
#include "ebb/plan/step_model.h"
#include "ebb/rewrite/proof.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {
namespace {

constexpr int kMostAttempts = 12;  // at a layout that fits
constexpr int kMostRefusals = 200;
constexpr Bytes kNoLimit{std::int64_t{1} << 61};

Status check_not_rewritten(const Graph& graph) {
  for (const NodeId node : graph.order()) {
    if (!is_copy(graph.op(node)) && !graph.clone_of(node).valid()) continue;
    return fail(ErrorKind::kBadInput,
                fmt::format("'{}' was added by a rewrite; a plan is made for the original graph",
                            printable(graph.name(node))));
  }
  return {};
}

// Before a simulation, copies of one size and another are added up.
Status check_sizes(const Graph& graph) {
  for (const StorageId storage : graph.storages()) {
    // Handles and strings are not ours to place.
    if (graph.size(storage) || element_size(graph.type(graph.root(storage)).dtype) == 0) continue;
    return fail(ErrorKind::kBadInput,
                fmt::format("the size of %{} is not known ({}), and a plan is made of sizes; fix "
                            "the batch size and all other dimensions",
                            spelled(graph.name(graph.root(storage))),
                            to_text(graph.type(graph.root(storage)))));
  }
  return {};
}

class PlanMaker {
 public:
  PlanMaker(const Graph& graph, const Device& device, const PlanOptions& options)
      : graph_(graph), device_(device), options_(options) {}

  Result<Planned> run() {
    if (Status ok = check_not_rewritten(graph_); !ok) return fail(ok.error());
    if (Status ok = check_sizes(graph_); !ok) return fail(ok.error());
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
    refusals_ = ask_rules(graph_, model_);
    planned_.budget = options_.budget;
    planned_.floor = find_floor(graph_).bytes;
    planned_.unconstrained = arrange_step(graph_, *costs).size;
    planned_.unconstrained_step = simulate(graph_, *costs).total;
    search();
    return std::move(planned_);
  }

 private:
  [[nodiscard]] Arena arrange_step(const Graph& graph, const StepCosts& costs) const {
    return arrange(graph, needs_of(graph, costs.workspace), {.alignment = device_.alignment});
  }

  [[nodiscard]] bool fits(const Plan& plan) const {
    return plan.arena.size <= options_.budget &&
           plan.arena.host_size <= options_.host_budget.value_or(kNoLimit);
  }

  // Lays out what the planner chooses; where that needs more than the lines hold, the planner gets
  // less the next time. What is found in the end is the plan, or the least that was found.
  void search() {
    if (planned_.unconstrained <= options_.budget) {
      const std::vector<Gap> gaps = find_gaps(model_);
      PlannerResult nothing;
      nothing.choices = choose_nothing(model_, gaps);
      planned_.plan = make(gaps, nothing, kNoLimit);
      if (fits(*planned_.plan)) return;
      planned_.plan.reset();  // what the step itself has on the host is too much
    }
    Bytes budget = options_.budget;
    Bytes host_budget = options_.host_budget.value_or(kNoLimit);
    int refusals = 0;
    std::optional<Plan> least;
    for (int attempt = 0; attempt < kMostAttempts;) {
      const std::vector<Gap> gaps = find_gaps(model_);
      const PlannerResult chosen = choose(model_, gaps, link_,
                                          {.budget = budget,
                                           .host_budget = host_budget,
                                           .evaluations = options_.evaluations,
                                           .seed = options_.seed,
                                           .progress = options_.progress,
                                           .is_out_of_time = options_.is_out_of_time});
      evaluations_ += chosen.evaluations;
      std::optional<Plan> plan = make(gaps, chosen, chosen.fits ? budget : chosen.peak);
      if (!plan) {
        if (++refusals > kMostRefusals) break;
        continue;
      }
      const bool is_least = !least || plan->arena.size < least->arena.size;
      if (fits(*plan)) {
        planned_.plan = std::move(plan);
        return;
      }
      const Bytes over = plan->arena.size - options_.budget;
      const Bytes host_over = plan->arena.host_size - options_.host_budget.value_or(kNoLimit);
      if (is_least) least = std::move(plan);
      if (!chosen.fits) break;
      if (over.count > 0) budget = lowered(budget, chosen.peak, over, attempt);
      if (host_over.count > 0) host_budget = lowered(host_budget, host_budget, host_over, attempt);
      ++attempt;
    }
    planned_.infeasible = explain(*least);
    planned_.infeasible->host_is_short = options_.host_budget && fits_with_more_on_host();
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
  std::optional<Plan> make(const std::vector<Gap>& gaps, const PlannerResult& chosen,
                           Bytes budget) {
    Evaluator evaluator(model_, gaps, link_, {.budget = budget});
    const Evaluation& evaluation = evaluator.evaluate(chosen.choices);
    Plan plan;
    plan.graph = graph_;
    Rewriter rewriter(plan.graph);
    if (const auto refused = apply_choices(model_, evaluation, rewriter)) {
      StepModel::Value& value = model_.values[refused->value];
      if (refused->means == Means::kSwap) {
        value.can_swap = false;
        refusals_.swap[refused->value] = refused->why;
      } else {
        value.can_recompute = false;
        refusals_.recompute[refused->value] = refused->why;
      }
      return std::nullopt;
    }
    rewriter.settle();
    prove_rewrite(graph_, plan.graph);
    plan.costs = estimate_costs(plan.graph, device_, options_.profile).value();
    plan.arena = arrange_step(plan.graph, plan.costs);
    plan.timeline = simulate(plan.graph, plan.costs);
    plan.evaluations = evaluations_;
    plan.model = model_;
    plan.gaps = gaps;
    plan.choices = chosen.choices;
    plan.file = plan_of(graph_, plan.graph, rewriter.journal());
    fill_in(plan);
    return plan;
  }

  void fill_in(Plan& plan) const {
    PlanFile& file = plan.file;
    file.device = device_.name;
    file.budget = options_.budget;
    file.host_budget = options_.host_budget;
    file.peak = plan.arena.size;
    file.host = plan.arena.host_size;
    file.step = plan.timeline.total;
    file.unconstrained = planned_.unconstrained_step;
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

  // --- Why there is no plan.

  [[nodiscard]] Infeasible explain(const Plan& least) const {
    const Graph& graph = least.graph;
    const std::vector<Life> lives = find_lives(graph);
    const std::uint32_t position = memory_curve(graph, lives).peak_position;
    const NodeId node = graph.order()[position];
    Infeasible out;
    out.least = least.arena.size;
    out.operation = graph.name(node);
    for (const Resident& it : residents_at(graph, lives, position)) {
      if (it.size.count == 0) continue;
      out.residents.push_back(
          {.what = fmt::format("%{}", spelled(graph.name(graph.root(it.storage)))),
           .size = it.size,
           .why = why_there(graph, it.storage, node)});
    }
    if (const Bytes workspace = least.costs.workspace[node.index()]; workspace.count > 0) {
      out.residents.push_back({.what = fmt::format("the workspace of '{}'", graph.name(node)),
                               .size = workspace,
                               .why = "it needs it"});
    }
    std::stable_sort(out.residents.begin(), out.residents.end(),
                     [](const auto& a, const auto& b) { return a.size > b.size; });
    return out;
  }

  [[nodiscard]] std::string why_there(const Graph& graph, StorageId storage, NodeId node) const {
    const auto is_it = [&](TensorId tensor) {
      return tensor.valid() && graph.storage(tensor) == storage;
    };
    const auto results = graph.results(node);
    const auto operands = graph.operands(node);
    const auto outputs = graph.outputs();
    const NodeKind origin = graph.origin(storage);
    if (std::any_of(operands.begin(), operands.end(),
                    [&](const Operand& operand) { return is_it(operand.tensor); })) {
      return fmt::format("'{}' reads it", graph.name(node));
    }
    if (std::any_of(results.begin(), results.end(), is_it)) {
      return fmt::format("'{}' makes it", graph.name(node));
    }
    if (origin == NodeKind::kParam) return "a parameter stays";
    if (origin == NodeKind::kConst) return "a constant stays";
    if (std::any_of(outputs.begin(), outputs.end(), is_it)) return "the step returns it";
    return why_kept(storage);
  }

  // Of a storage that the original has as well, or that was added.
  [[nodiscard]] std::string why_kept(StorageId storage) const {
    const auto value =
        std::find_if(model_.values.begin(), model_.values.end(),
                     [&](const StepModel::Value& it) { return it.storage == storage; });
    if (value == model_.values.end()) return "it was brought back for what comes next";
    if (value->can_swap || value->can_recompute) return "to let it go would not help here";
    const auto index = static_cast<std::size_t>(value - model_.values.begin());
    if (!options_.may_swap || !options_.may_recompute) return "it may not be moved";
    const std::string& swap = refusals_.swap[index];
    const std::string& recompute = refusals_.recompute[index];
    if (!swap.empty()) return swap;
    if (!recompute.empty()) return recompute;
    return "it is updated, or too small, or read at once";
  }

  const Graph& graph_;
  const Device& device_;
  const PlanOptions& options_;
  Link link_;
  StepModel model_;
  Refusals refusals_;
  Planned planned_;
  std::uint32_t evaluations_ = 0;
};

}  // namespace

Result<Planned> make_plan(const Graph& graph, const Device& device, const PlanOptions& options) {
  return PlanMaker(graph, device, options).run();
}

Result<Bytes> unconstrained_bytes(const Graph& graph, const Device& device,
                                  const PlanOptions& options) {
  if (Status ok = check_sizes(graph); !ok) return fail(ok.error());
  const auto costs = estimate_costs(graph, device, options.profile);
  if (!costs) return fail(costs.error());
  return arrange(graph, needs_of(graph, costs->workspace), {.alignment = device.alignment}).size;
}

}  // namespace ebb
