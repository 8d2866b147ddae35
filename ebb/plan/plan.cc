#include "ebb/plan/plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/text_names.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/attempt.h"
#include "ebb/plan/infeasible.h"
#include "ebb/plan/simulate.h"
#include "ebb/plan/splits.h"
#include "ebb/rewrite/decision.h"

namespace ebb {
namespace {

constexpr int kMostConfirmations = 6;
constexpr int kMostSplitRounds = 3;  // of splitting what is at the peak; then all that is left

Status check_not_rewritten(const Graph& graph) {
  for (const NodeId node : graph.order()) {
    if (!is_copy(graph.op(node)) && !graph.clone_of(node).valid()) continue;
    return fail(ErrorKind::kBadInput,
                fmt::format("'{}' was added by a rewrite; a plan is made for the original graph",
                            printable(graph.name(node))));
  }
  return {};
}

Status check_sizes(const Graph& graph, Clock clock) {
  for (const StorageId storage : graph.storages()) {
    // What TensorFlow has on the host is not ours to place.
    const bool is_elsewhere = graph.residence(storage) == Residence::kHost;
    if (is_tensorflow(clock) && is_elsewhere) continue;
    // Handles and strings are not ours to place.
    if (graph.size(storage) || element_size(graph.type(graph.root(storage)).dtype) == 0) continue;
    return fail(ErrorKind::kBadInput,
                fmt::format("the size of %{} is not known ({}), and a plan is made of sizes; fix "
                            "the batch size and all other dimensions (a GraphDef has shapes by "
                            "as_graph_def(add_shapes=True))",
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
    if (Status ok = look_at_graph(); !ok) return fail(ok.error());
    return search();
  }

  Result<Planned> take(const PlanFile& file) {
    if (Status ok = look_at_graph(); !ok) return fail(ok.error());
    auto applied = apply_plan(graph_, file);
    if (!applied) return fail(applied.error());
    const PlanTask task = make_task();
    const std::vector<NodeId> splits = splits_of(file);
    auto plan = take_plan(task, splits, file, std::move(applied->graph));
    if (!plan) return fail(plan.error());
    if (!fits(**plan, options_)) {
      return fail(ErrorKind::kRefused,
                  fmt::format("with this plan the step needs {}, and {} on the host",
                              to_human((*plan)->arena.size), to_human((*plan)->arena.host_size)));
    }
    planned_.plan = *std::move(plan);
    return std::move(planned_);
  }

 private:
  // What is known before anything is decided.
  Status look_at_graph() {
    if (Status ok = check_not_rewritten(graph_); !ok) return ok;
    if (Status ok = check_sizes(graph_, options_.clock); !ok) return ok;
    const auto costs = estimate_costs(graph_, device_, options_.profile);
    if (!costs) return fail(costs.error());
    planned_.budget = options_.budget;
    const Timeline timeline = simulate(graph_, *costs, options_.clock);
    planned_.unconstrained =
        arrange_step(graph_, *costs, timeline, device_, options_.clock, Bytes{}).size;
    planned_.unconstrained_step = timeline.total;
    if (options_.may_split) splittable_ = find_splittable(graph_);
    if (options_.profile != nullptr && !splittable_.empty()) {
      profile_ = with_halves(*options_.profile, graph_);
    }
    planned_.floor = find_least_floor(*costs);
    return {};
  }

  // In the order of the file, as an attempt has them.
  [[nodiscard]] std::vector<NodeId> splits_of(const PlanFile& file) const {
    std::vector<NodeId> splits;
    for (const PlanFile::Line& line : file.decisions) {
      const auto decision = parse_decision(graph_, line.text);
      if (!decision) continue;  // about something that the plan has made
      const auto* split = std::get_if<SplitDecision>(&*decision);
      if (split == nullptr) continue;
      if (std::find(splittable_.begin(), splittable_.end(), split->node) != splittable_.end()) {
        splits.push_back(split->node);
      }
    }
    return splits;
  }

  [[nodiscard]] const Profile* profile() const { return profile_ ? &*profile_ : options_.profile; }

  // Of the step with all calls split: no plan needs less.
  [[nodiscard]] Bytes find_least_floor(const StepCosts& costs) const {
    if (splittable_.empty()) return find_floor(with_workspaces(graph_, costs)).bytes;
    const Graph split = with_splits(graph_, splittable_);
    const auto split_costs = estimate_costs(split, device_, profile());
    return find_floor(split_costs ? with_workspaces(split, *split_costs)
                                  : with_workspaces(graph_, costs))
        .bytes;
  }

  Result<Planned> search() {
    auto found = find_best();
    if (!found) return fail(found.error());
    if (!found->plan && options_.host_budget) found->plan = plan_without_host_budget();
    Infeasible& why = found->why;
    if (found->plan) {
      found->plan->evaluations = evaluations_;
      planned_.plan = std::move(found->plan);
      if (!is_confirming_) return std::move(planned_);
    } else if (!is_confirming_) {
      why = confirmed(why);
    }
    why.host_is_short = found->host_is_short;
    planned_.infeasible = std::make_unique<const Infeasible>(std::move(why));
    return std::move(planned_);
  }

  // What is planned without regard to the host may need no more there than it has: on the way to it
  // other calls are split.
  std::unique_ptr<Plan> plan_without_host_budget() {
    PlanOptions options = options_;
    options.host_budget.reset();
    PlanMaker other(graph_, device_, options);
    if (!other.look_at_graph()) return nullptr;
    auto found = other.find_best();
    evaluations_ += other.evaluations_;
    if (!found || !found->plan || !fits(*found->plan, options_)) return nullptr;
    found->plan->file.host_budget = options_.host_budget;
    return std::move(found->plan);
  }

  // Where calls that can be split stand at the peak, so that nothing fits or time is lost, the step
  // is planned again with these split; and once more with others, because the peak is elsewhere
  // then. The best of all attempts counts.
  Result<PlanOutcome> find_best() {
    auto first = attempt({});
    if (!first) return first;
    PlanOutcome best = *std::move(first);
    std::vector<NodeId> splits;
    std::vector<NodeId> whole = splittable_;
    std::vector<NodeId> at_peak = find_worth_splitting(best, whole);
    for (int round = 1; !at_peak.empty(); ++round) {
      splits.insert(splits.end(), at_peak.begin(), at_peak.end());
      std::erase_if(whole, [&](NodeId call) {
        return std::find(at_peak.begin(), at_peak.end(), call) != at_peak.end();
      });
      auto tried = attempt(splits);
      if (!tried) break;  // costs that are just not absurd may become so
      PlanOutcome next = *std::move(tried);
      at_peak = find_worth_splitting(next, whole);
      if (round == kMostSplitRounds) at_peak = next.plan ? std::vector<NodeId>() : whole;
      next.host_is_short = next.host_is_short || best.host_is_short;
      if (is_better(next, best)) {
        best = std::move(next);
      } else if (best.plan) {
        break;
      }
    }
    return best;
  }

  [[nodiscard]] std::vector<NodeId> find_worth_splitting(const PlanOutcome& outcome,
                                                         const std::vector<NodeId>& calls) const {
    const bool loses_nothing = outcome.plan && outcome.plan->step() <= planned_.unconstrained_step;
    return loses_nothing || calls.empty() ? std::vector<NodeId>()
                                          : find_at_peak(outcome.best(), calls);
  }

  static bool is_better(const PlanOutcome& a, const PlanOutcome& b) {
    if (!a.plan || !b.plan) return a.plan || (!b.plan && a.why.least < b.why.least);
    return a.plan->step() < b.plan->step();
  }

  [[nodiscard]] PlanTask make_task() const {
    PlanTask task{.graph = graph_,
                  .device = device_,
                  .options = options_,
                  .unconstrained_step = planned_.unconstrained_step,
                  .is_confirming = is_confirming_};
    task.options.profile = profile();
    return task;
  }

  Result<PlanOutcome> attempt(const std::vector<NodeId>& splits) {
    const PlanTask task = make_task();
    auto outcome = attempt_plan(task, splits);
    if (outcome) evaluations_ += outcome->evaluations;
    return outcome;
  }

  // The least is a promise: who asks for it gets a plan. So it is asked for.
  [[nodiscard]] Infeasible confirmed(Infeasible why) const {
    Bytes asked = why.least;
    for (int i = 0; i < kMostConfirmations && asked < planned_.unconstrained; ++i) {
      PlanOptions options = options_;
      options.budget = asked;
      options.evaluations = 0;
      options.progress = nullptr;
      PlanMaker again(graph_, device_, options);
      again.is_confirming_ = true;
      const auto planned = again.run();
      if (planned && planned->plan) {
        Infeasible out = *planned->infeasible;
        out.least = asked;
        return out;
      }
      if (!planned || planned->infeasible->least <= asked) break;
      asked = planned->infeasible->least;
    }
    why.least = planned_.unconstrained;
    return why;
  }

  const Graph& graph_;
  const Device& device_;
  const PlanOptions& options_;
  std::vector<NodeId> splittable_;
  std::optional<Profile> profile_;  // with the calls of splits
  Planned planned_;
  std::uint32_t evaluations_ = 0;
  bool is_confirming_ = false;  // it is asked whether a budget does
};

}  // namespace

Result<Planned> make_plan(const Graph& graph, const Device& device, const PlanOptions& options) {
  return PlanMaker(graph, device, options).run();
}

Result<Planned> plan_of_file(const Graph& graph, const Device& device, const PlanOptions& options,
                             const PlanFile& file) {
  return PlanMaker(graph, device, options).take(file);
}

Result<Bytes> unconstrained_bytes(const Graph& graph, const Device& device,
                                  const PlanOptions& options) {
  if (Status ok = check_sizes(graph, options.clock); !ok) return fail(ok.error());
  const auto costs = estimate_costs(graph, device, options.profile);
  if (!costs) return fail(costs.error());
  const Timeline timeline = simulate(graph, *costs, options.clock);
  return arrange_step(graph, *costs, timeline, device, options.clock, Bytes{}).size;
}

}  // namespace ebb
