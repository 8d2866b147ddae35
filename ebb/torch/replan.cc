#include "ebb/torch/replan.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "ebb/exec/measured_timeline.h"
#include "ebb/exec/measurement_cache.h"
#include "ebb/graph/graph_check.h"
#include "ebb/torch/host_slab.h"
#include "ebb/torch/step.h"

namespace ebb::torch {
namespace {

// A step is planned again when it takes more than so much of what was predicted, per cent, and goes
// on with the new plan when that takes no more than so much of the one that it has.
constexpr std::int64_t kMostOfPredicted = 115;
constexpr std::int64_t kMostOfKept = 95;
constexpr std::size_t kTimedSteps = 3;

}  // namespace

Trial::Trial(Graph original, std::vector<Recipe> recipes, Device device, PlanOptions planning,
             exec::Profiler profiler)
    : original_(std::move(original)),
      recipes_(std::move(recipes)),
      device_(std::move(device)),
      planning_(std::move(planning)),
      profiler_(std::move(profiler)) {}

void Trial::add_step(std::span<const exec::Interval> times, Duration total) {
  profiler_.add_step(times);
  totals_.push_back(total);
}

bool Trial::is_over() const { return totals_.size() >= kTimedSteps; }

Duration Trial::step() const {
  std::vector<Duration> totals = totals_;
  const auto middle = totals.begin() + static_cast<std::ptrdiff_t>(totals.size() / 2);
  std::nth_element(totals.begin(), middle, totals.end());
  return *middle;
}

Result<Profile> Trial::profile() const { return profiler_.profile("measured"); }

// --- Of Step, what it does when a trial is over.

Status Step::look_at_times(const TellProgress& progress) {
  auto times = backend_->lanes().times();
  if (!times) return fail(std::move(times.error()));
  trial_->add_step(*times, exec::measured_timeline(graph(), program(), *times).total);
  if (!trial_->is_over()) return {};
  const std::unique_ptr<Trial> trial = std::move(trial_);
  return plan_again(*trial, progress);
}

// Until there is another plan, the step is left as it is: `progress` may throw.
Status Step::plan_again(const Trial& trial, const TellProgress& progress) {
  Replanned result;
  result.measured = trial.step();
  result.predicted = planned_->plan->step();
  if (result.measured.count() <= result.predicted.count() / 100 * kMostOfPredicted) return {};
  // Times in the step are what the next process should plan with, too.
  const auto in_step = trial.profile();
  if (!in_step) return {};  // nothing that could be planned with
  const auto profile = time_as_in_step(trial, *in_step, progress);
  if (!profile) return {};
  exec::MeasuredOnce kernels(kernels_, measured_.operations);
  PlanOptions planning = trial.planning();
  planning.profile = &*profile;
  if (progress) {
    planning.progress = [&](std::uint32_t done, std::uint32_t of, Duration /*best*/) {
      progress("planning again", done, of);
    };
  }
  const auto kept = plan_of_file(trial.original(), trial.device(), planning, planned_->plan->file);
  auto fitting = plan_to_fit(trial.original(), trial.device(), planning, kernels, nullptr);
  if (!kept || !fitting) return {};  // then the plan stays that has been running
  result.kept = kept->plan->step();
  result.anew = fitting->planned->plan->step();
  result.is_used = result.anew.count() <= result.kept.count() / 100 * kMostOfKept;
  replanned_ = result;
  ++generation_;
  if (!result.is_used) return {};
  return go_on_with(std::move(*fitting));
}

Result<Profile> Step::time_as_in_step(const Trial& trial, const Profile& in_step,
                                      const TellProgress& progress) {
  std::chrono::duration<double> alone{};
  std::chrono::duration<double> together{};
  const auto keep = [&](const std::string& signature, Duration time) {
    exec::Measured& known = measured_.operations[signature];
    known.time = time;
    known.is_new = true;
  };
  for (const ProfiledOperation& operation : in_step.operations()) {
    alone += measured_.operations[operation.signature].time.value_or(operation.time);
    together += operation.time;
    keep(operation.signature, operation.time);
  }
  exec::MeasuredOnce kernels(kernels_, measured_.operations);
  std::function<void(std::size_t, std::size_t)> tell;
  if (progress) {
    tell = [&](std::size_t done, std::size_t total) {
      progress("timing operations again", done, total);
    };
  }
  auto timed = time_calls(trial.original(), trial.recipes(), kernels, tell);
  if (!timed) return timed;
  // What one plan splits and another does not was not in these steps: it is taken to be as much
  // slower there as the rest, so that it looks neither better nor worse.
  const double slower = alone.count() > 0 ? together / alone : 1;
  for (const ProfiledOperation& operation : timed->operations()) {
    if (in_step.find(operation.signature) != nullptr) continue;
    keep(operation.signature, std::chrono::duration_cast<Duration>(operation.time * slower));
  }
  exec::save_measurements(cache_, measured_);
  return time_calls(trial.original(), trial.recipes(), kernels, nullptr);
}

Status Step::go_on_with(Fitting fitting) {
  const Lowered& next = *fitting.lowered;
  std::shared_ptr<const exec::Arena> host = host_;
  if (next.program.host_size > host->size()) {
    auto larger = make_host_slab(*backend_, next.program.host_size, Bytes{}, nullptr);
    if (!larger) {  // as little a reason to stop as a plan that is not better
      if (replanned_) replanned_->is_used = false;
      return {};
    }
    host = *std::move(larger);
  }
  auto executor = bind(next, *host);
  if (!executor) {
    if (replanned_) replanned_->is_used = false;
    return {};
  }
  for (const StorageId storage : next.graph.storages()) {
    const NodeKind origin = next.graph.origin(storage);
    if (origin != NodeKind::kParam && origin != NodeKind::kConst) continue;
    const TensorId root = next.graph.root(storage);
    EBB_CHECK_ON(next.graph, (*executor)->place(root) == place(root), "%{} of the state has moved",
                 next.graph.name(root));
  }
  // What the step has returned lies where the caller will look for it.
  struct Returned {
    std::byte* place;
    std::vector<std::byte> bytes;
  };
  std::vector<Returned> returned;
  for (std::size_t i = 0; i < graph().outputs().size(); ++i) {
    const TensorId from = graph().root(graph().storage(graph().outputs()[i]));
    const TensorId to = next.graph.root(next.graph.storage(next.graph.outputs()[i]));
    const Bytes size = graph().size(graph().storage(from)).value_or(Bytes{});
    EBB_CHECK_ON(next.graph, next.graph.size(next.graph.storage(to)) == size,
                 "output {} has another size", i);
    if (place(from) == (*executor)->place(to)) continue;
    Returned& copy = returned.emplace_back(Returned{
        (*executor)->place(to), std::vector<std::byte>(static_cast<std::size_t>(size.count))});
    if (Status ok = backend_->copy(copy.bytes.data(), place(from), copy.bytes.size()); !ok) {
      return ok;
    }
  }
  for (const Returned& copy : returned) {
    if (Status ok = backend_->copy(copy.place, copy.bytes.data(), copy.bytes.size()); !ok) {
      return ok;
    }
  }
  const Replanned why = replanned_.value_or(Replanned{});
  notes_.push_back(
      fmt::format("the step took {}, predicted were {}; planned again with measured times: {}",
                  to_human(why.measured), to_human(why.predicted), to_human(why.anew)));
  executor_ = *std::move(executor);
  now_ = std::move(fitting.lowered);
  planned_ = std::move(fitting.planned);
  host_ = std::move(host);
  if (keeping_ == Keeping::kKept) keeping_ = Keeping::kNotYet;
  if (!can_be_kept()) keeping_ = Keeping::kNever;
  same_given_ = 0;
  return {};
}

}  // namespace ebb::torch
