#include "ebb/plan/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/text_names.h"
#include "ebb/order/in_place.h"
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
constexpr int kMostConfirmations = 6;

Status check_not_rewritten(const Graph& graph) {
  for (const NodeId node : graph.order()) {
    if (!is_copy(graph.op(node)) && !graph.clone_of(node).valid()) continue;
    return fail(ErrorKind::kBadInput,
                fmt::format("'{}' was added by a rewrite; a plan is made for the original graph",
                            printable(graph.name(node))));
  }
  return {};
}

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

// With the workspaces of the costs, of which a profile knows some that the text does not.
Graph with_workspaces(Graph graph, const StepCosts& costs) {
  GraphEdit edit(graph);
  for (const NodeId node : graph.nodes()) edit.set_workspace(node, costs.workspace[node.index()]);
  return graph;
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
    if (Status ok = check_copies(model_, link_); !ok) return fail(ok.error());
    planned_.floor = find_floor(with_workspaces(graph_, *costs)).bytes;
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

  void search() {
    if (planned_.unconstrained <= options_.budget) {
      auto all = keep_all();
      if (fits(*all)) {
        planned_.plan = std::move(all);
        return;
      }
    }
    std::unique_ptr<Plan> least = keep_all();  // which no rule refuses
    is_host_full_ = least->arena.host_size > options_.host_budget.value_or(kNoLimit);
    if (try_with_host(kNoLimit, least)) return;
    if (options_.host_budget) {
      if (try_with_host(*options_.host_budget, least)) return;
      // And as if nothing could be swapped.
      const StepModel all = model_;
      for (StepModel::Value& value : model_.values) value.can_swap = false;
      const bool is_done = try_with_host(*options_.host_budget, least);
      model_ = all;
      if (is_done) return;
    }
    Infeasible why = is_confirming_ ? explain(*least) : explain_confirmed(*least);
    why.host_is_short = options_.host_budget && (is_host_full_ || fits_with_more_on_host());
    planned_.infeasible = std::make_unique<const Infeasible>(std::move(why));
  }

  // Search may lead to plans whose offsets do not fit, where those of greed do. A plan that is
  // found without regard to the host is as good as another if it needs no more there.
  bool try_with_host(Bytes host_budget, std::unique_ptr<Plan>& least) {
    return try_plans(options_.evaluations, host_budget, least) || try_plans(0, host_budget, least);
  }

  // Lays out what the planner chooses; where that needs more than the lines hold, the planner gets
  // less the next time. Whether there is a plan in the end; if not, `least` is the least found.
  bool try_plans(std::optional<std::uint32_t> evaluations, Bytes host_budget,
                 std::unique_ptr<Plan>& least) {
    Bytes budget = options_.budget;
    int refusals = 0;
    for (int attempt = 0; attempt < kMostAttempts;) {
      const std::vector<Gap> gaps = find_gaps(model_);
      const PlannerResult chosen = choose(model_, gaps, link_,
                                          {.budget = budget,
                                           .host_budget = host_budget,
                                           .evaluations = evaluations,
                                           .seed = options_.seed,
                                           .progress = options_.progress,
                                           .is_out_of_time = options_.is_out_of_time});
      evaluations_ += chosen.evaluations;
      std::unique_ptr<Plan> plan = make(gaps, chosen, chosen.fits ? budget : chosen.peak);
      if (!plan) {
        if (++refusals > kMostRefusals) return false;
        continue;
      }
      if (fits(*plan)) {
        planned_.plan = std::move(plan);
        return true;
      }
      const Bytes over = plan->arena.size - options_.budget;
      const Bytes host_over = plan->arena.host_size - options_.host_budget.value_or(kNoLimit);
      if (host_over.count <= 0 && plan->arena.size < least->arena.size) least = std::move(plan);
      if (!chosen.fits) return false;
      if (host_over.count > 0 && host_budget == kNoLimit) return false;
      if (over.count > 0) budget = lowered(budget, chosen.peak, over, attempt);
      if (host_over.count > 0) host_budget = lowered(host_budget, host_budget, host_over, attempt);
      ++attempt;
    }
    return false;
  }

  // The least is a promise: who asks for it gets a plan. So it is asked for.
  [[nodiscard]] Infeasible explain_confirmed(const Plan& least) const {
    Bytes asked = least.arena.size;
    for (int i = 0; i < kMostConfirmations && asked < planned_.unconstrained; ++i) {
      PlanOptions options = options_;
      options.budget = asked;
      options.evaluations = 0;
      options.progress = nullptr;
      PlanMaker again(graph_, device_, options);
      again.is_confirming_ = true;
      const auto planned = again.run();
      if (planned && planned->plan) {
        Infeasible out = explain(*planned->plan);
        out.least = asked;
        return out;
      }
      if (!planned || planned->infeasible->least <= asked) break;
      asked = planned->infeasible->least;
    }
    Infeasible out = explain(least);
    out.least = planned_.unconstrained;
    return out;
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
    Evaluator evaluator(model_, gaps, link_, {.budget = budget});
    const Evaluation& evaluation = evaluator.evaluate(chosen.choices);
    auto made = std::make_unique<Plan>();
    Plan& plan = *made;
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
      return nullptr;
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
    return made;
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
    const Graph graph = with_workspaces(least.graph, least.costs);
    const std::vector<Life> lives = find_lives(graph);
    const ArenaNeeds needs = needs_of(graph, least.costs.workspace);
    const std::vector<StorageId> takes_over =
        find_takeovers(graph, lives, needs.storages, needs.can_be_placed);
    const std::uint32_t position = find_peak_line(graph, lives, takes_over);
    const NodeId node = graph.order()[position];
    std::vector<bool> is_taken(graph.storage_count());  // at that line
    for (const TensorId result : graph.results(node)) {
      const StorageId taken = takes_over[graph.storage(result).index()];
      if (taken.valid()) is_taken[taken.index()] = true;
    }
    Infeasible out;
    out.least = least.arena.size;
    out.operation = graph.name(node);
    Bytes state;  // that this operation does not touch
    for (const Resident& it : residents_at(graph, lives, position)) {
      if (it.size.count == 0 || is_taken[it.storage.index()]) continue;
      const NodeKind origin = graph.origin(it.storage);
      const bool is_state = origin == NodeKind::kParam || origin == NodeKind::kConst;
      if (is_state && !touches(graph, node, it.storage)) {
        state += it.size;
        continue;
      }
      out.residents.push_back(
          {.what = fmt::format("%{}", spelled(graph.name(graph.root(it.storage)))),
           .size = it.size,
           .why = why_there(graph, it.storage, node)});
    }
    if (state.count > 0) {
      out.residents.push_back(
          {.what = "parameters, optimizer state and constants", .size = state, .why = "they stay"});
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

  // Where most is held, with results in the place of operands counted once.
  static std::uint32_t find_peak_line(const Graph& graph, const std::vector<Life>& lives,
                                      const std::vector<StorageId>& takes_over) {
    const MemoryCurve curve = memory_curve(graph, lives);
    Bytes peak;
    std::uint32_t line = 0;
    for (std::uint32_t i = 0; i < curve.device.size(); ++i) {
      Bytes held = curve.device[i];
      const NodeId node = graph.order()[i];
      for (const TensorId result : graph.results(node)) {
        const StorageId storage = graph.storage(result);
        if (graph.root(storage) != result || !takes_over[storage.index()].valid()) continue;
        held -= graph.size(storage).value_or(Bytes{});
      }
      if (held <= peak) continue;
      peak = held;
      line = i;
    }
    return line;
  }

  static bool touches(const Graph& graph, NodeId node, StorageId storage) {
    const auto operands = graph.operands(node);
    const auto results = graph.results(node);
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Operand& operand) {
                         return operand.tensor.valid() && graph.storage(operand.tensor) == storage;
                       }) ||
           std::any_of(results.begin(), results.end(),
                       [&](TensorId result) { return graph.storage(result) == storage; });
  }

  [[nodiscard]] std::string why_there(const Graph& graph, StorageId storage, NodeId node) const {
    const auto outputs = graph.outputs();
    if (touches(graph, node, storage)) {
      const bool is_made = graph.producer(graph.root(storage)) == node;
      return fmt::format("'{}' {} it", graph.name(node), is_made ? "makes" : "reads");
    }
    if (std::any_of(outputs.begin(), outputs.end(),
                    [&](TensorId output) { return graph.storage(output) == storage; })) {
      return "the step returns it";
    }
    return why_kept(storage);
  }

  // Of a storage that the original has as well, or that was added.
  [[nodiscard]] std::string why_kept(StorageId storage) const {
    const auto value =
        std::find_if(model_.values.begin(), model_.values.end(),
                     [&](const StepModel::Value& it) { return it.storage == storage; });
    if (value == model_.values.end()) return "it is there for what comes next";
    const auto index = static_cast<std::size_t>(value - model_.values.begin());
    if (value->can_swap && options_.host_budget) return "the host may have no room for it";
    if (value->can_swap || value->can_recompute) return "to let it go would not help here";
    if (value->size < options_.min_bytes) return "it is smaller than --min-bytes";
    if (!refusals_.swap[index].empty()) return refusals_.swap[index];
    if (!refusals_.recompute[index].empty()) return refusals_.recompute[index];
    if (!options_.may_swap) return "swapping is forbidden, and it cannot be computed again";
    if (!options_.may_recompute) return "computing again is forbidden, and it cannot be swapped";
    return "it is updated in place, or is the value of a variable";
  }

  const Graph& graph_;
  const Device& device_;
  const PlanOptions& options_;
  Link link_;
  StepModel model_;
  Refusals refusals_;
  Planned planned_;
  std::uint32_t evaluations_ = 0;
  bool is_confirming_ = false;  // it is asked whether a budget does
  bool is_host_full_ = false;   // of what the step itself has there
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
