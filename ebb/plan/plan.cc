#include "ebb/plan/plan.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/text_names.h"
#include "ebb/order/liveness.h"
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
    if (clock == Clock::kEnqueued && is_elsewhere) continue;
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

// What the step takes: its layout, or what an allocator has given out.
Arena arrange_step(const Graph& graph, const StepCosts& costs, const Device& device,
                   const PlanOptions& options) {
  if (options.clock == Clock::kCompleted) {
    return arrange(graph, needs_of(graph, costs.workspace), {.alignment = device.alignment});
  }
  const Timeline timeline = simulate(graph, costs, options.clock);
  Arena arena;
  arena.size = arena.bound = timeline.device_peak;
  arena.host_size = arena.host_bound = timeline.host_peak;
  return arena;
}

// What there is to plan, and what holds for all attempts at it.
struct Task {
  const Graph& graph;
  const Device& device;
  PlanOptions options;
  Duration unconstrained_step;
  bool is_confirming = false;  // it is asked whether a budget does
};

void fill_in(Plan& plan, const Task& task) {
  PlanFile& file = plan.file;
  file.device = task.device.name;
  file.budget = task.options.budget;
  file.host_budget = task.options.host_budget;
  file.peak = plan.arena.size;
  file.host = plan.arena.host_size;
  file.step = plan.timeline.total;
  file.unconstrained = task.unconstrained_step;
  if (task.options.clock == Clock::kEnqueued) return;
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
void finish(Plan& plan, const Task& task) {
  plan.costs = estimate_costs(plan.graph, task.device, task.options.profile).value();
  plan.arena = arrange_step(plan.graph, plan.costs, task.device, task.options);
  plan.timeline = simulate(plan.graph, plan.costs, task.options.clock);
  fill_in(plan, task);
}

bool fits(const Plan& plan, const PlanOptions& options) {
  return plan.arena.size <= options.budget &&
         plan.arena.host_size <= options.host_budget.value_or(kNoLimit);
}

struct Outcome {
  std::unique_ptr<Plan> plan;   // null where none fits
  std::unique_ptr<Plan> least;  // what needs least of all that was found, then
  bool host_is_short = false;
  Infeasible why;  // of the least; of the plan where it is a confirmation
  std::uint32_t evaluations = 0;

  [[nodiscard]] const Plan& best() const { return plan ? *plan : *least; }
};

// A plan for the step with some of its calls split, by keeping, swapping and computing again.
class Attempt {
 public:
  Attempt(const Task& task, const std::vector<NodeId>& splits)
      : original_(task.graph),
        splits_(splits),
        graph_(with_splits(task.graph, splits)),
        device_(task.device),
        options_(task.options),
        task_(task) {}

  Result<Outcome> run() {
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

  // Lays out what the planner chooses; where that needs more than the lines hold, the planner gets
  // less the next time. Whether there is a plan in the end.
  bool try_plans(std::optional<std::uint32_t> evaluations, Bytes host_budget) {
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
      if (fits(*plan, options_)) {
        out_.plan = std::move(plan);
        return true;
      }
      const Bytes over = plan->arena.size - options_.budget;
      const Bytes host_over = plan->arena.host_size - options_.host_budget.value_or(kNoLimit);
      if (host_over.count <= 0 && plan->arena.size < out_.least->arena.size) {
        out_.least = std::move(plan);
      }
      if (!chosen.fits) return false;
      if (host_over.count > 0 && host_budget == kNoLimit) return false;
      if (over.count > 0) budget = lowered(budget, chosen.peak, over, attempt);
      if (host_over.count > 0) host_budget = lowered(host_budget, host_budget, host_over, attempt);
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
    Evaluator evaluator(model_, gaps, link_, {.budget = budget});
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
    if (options_.clock == Clock::kEnqueued) plan.held = hold(rewriter);
    prove_rewrite(original_, plan.graph);
    plan.model = model_;
    plan.gaps = gaps;
    plan.choices = chosen.choices;
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
  const Task& task_;
  Link link_;
  StepModel model_;
  Refusals refusals_;
  Outcome out_;
  std::uint32_t evaluations_ = 0;
  bool is_host_full_ = false;  // of what the step itself has there
};

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
    const Task task = make_task();
    const std::vector<NodeId> splits = splits_of(file);
    auto plan = Attempt(task, splits).take(file, std::move(applied->graph));
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
    planned_.unconstrained = arrange_step(graph_, *costs, device_, options_).size;
    planned_.unconstrained_step = simulate(graph_, *costs, options_.clock).total;
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

  // Where calls that can be split stand at the peak, so that nothing fits or time is lost, the step
  // is planned again with these split; and once more with others, because the peak is elsewhere
  // then. The best of all attempts counts.
  Result<Outcome> find_best() {
    auto first = attempt({});
    if (!first) return first;
    Outcome best = *std::move(first);
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
      Outcome next = *std::move(tried);
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

  [[nodiscard]] std::vector<NodeId> find_worth_splitting(const Outcome& outcome,
                                                         const std::vector<NodeId>& calls) const {
    const bool loses_nothing = outcome.plan && outcome.plan->step() <= planned_.unconstrained_step;
    return loses_nothing || calls.empty() ? std::vector<NodeId>()
                                          : find_at_peak(outcome.best(), calls);
  }

  static bool is_better(const Outcome& a, const Outcome& b) {
    if (!a.plan || !b.plan) return a.plan || (!b.plan && a.why.least < b.why.least);
    return a.plan->step() < b.plan->step();
  }

  [[nodiscard]] Task make_task() const {
    Task task{.graph = graph_,
              .device = device_,
              .options = options_,
              .unconstrained_step = planned_.unconstrained_step,
              .is_confirming = is_confirming_};
    task.options.profile = profile();
    return task;
  }

  Result<Outcome> attempt(const std::vector<NodeId>& splits) {
    const Task task = make_task();
    auto outcome = Attempt(task, splits).run();
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
  return arrange_step(graph, *costs, device, options).size;
}

}  // namespace ebb
