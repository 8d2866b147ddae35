#include "ebb/plan/tune.h"

#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "ebb/graph/text_names.h"
#include "ebb/plan/budget.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/simulate.h"
#include "ebb/rewrite/lms_names.h"
#include "ebb/rewrite/lms_rewrite.h"

namespace ebb {
namespace {

constexpr std::array<std::int64_t, 9> kLbs = {2, 3, 4, 6, 8, 12, 16, 24, 32};
// How exactly the fewest tensors are wanted: to a 16th.
std::int64_t grain(std::int64_t tensors) { return std::max<std::int64_t>(1, tensors / 16); }

// A peak without some of the tensors says nothing. Handles and texts count as nothing everywhere.
Status check_sizes(const Graph& graph) {
  for (const StorageId storage : graph.storages()) {
    const TensorId tensor = graph.root(storage);
    const TensorType& type = graph.type(tensor);
    if (type.residence == Residence::kHost || element_size(type.dtype) == 0 || extent(type)) {
      continue;
    }
    return fail(ErrorKind::kBadInput,
                fmt::format("how large %{} is, is not known ({}), and so what the step uses: fix "
                            "the batch size and all other dimensions",
                            spelled(graph.name(tensor)), to_text(type)));
  }
  return {};
}

class Tuner {
 public:
  Tuner(const Graph& graph, const Device& device, const TuneOptions& options,
        const Profile* profile)
      : graph_(graph), device_(device), options_(options), profile_(profile) {}

  Result<Tuning> run() {
    tuning_.budget = options_.budget;
    if (profile_ == nullptr) tuning_.floor = find_floor(graph_);
    if (auto ok = check_lms_options(graph_, with("chain_rule", false)); !ok) {
      return fail(ok.error());
    }
    if (auto ok = check_sizes(graph_); !ok) return fail(ok.error());
    tuning_.as_it_is.parameters.n_tensors = 0;
    if (auto ok = measure(graph_, tuning_.as_it_is); !ok) return fail(ok.error());
    const auto done = tuning_.as_it_is.fits ? keep_as_it_is() : search();
    if (!done) return fail(done.error());
    choose();
    return std::move(tuning_);
  }

 private:
  // A trial that has been made, by its number.
  using Made = Result<std::optional<std::size_t>>;  // nothing: there were enough

  Status measure(const Graph& graph, TuneTrial& trial) {
    const auto costs = estimate_costs(graph, device_, profile_);
    if (!costs) return fail(costs.error());
    const Peak peak = find_peak(graph, *costs);
    trial.peak = peak.bytes;
    if (peak.node.valid()) trial.peak_node = graph.name(peak.node);
    trial.host_peak = peak.host;
    trial.step = simulate(graph, *costs).total;
    trial.fits = trial.peak <= options_.budget;
    return {};
  }

  Made make(const LmsOptions& parameters) {
    auto& trials = tuning_.trials;
    if (trials.size() >= std::max<std::size_t>(1, options_.most_trials)) return std::nullopt;
    if (options_.before_trial) options_.before_trial(trials.size() + 1);
    const auto rewritten = rewrite_by_lms(graph_, parameters);
    if (!rewritten) return fail(rewritten.error());
    TuneTrial trial{.parameters = parameters,
                    .tensors_swapped = rewritten->plan.swaps.size(),
                    .bytes_swapped = rewritten->plan.bytes,
                    .peak = {},
                    .peak_node = {},
                    .host_peak = {}};
    if (auto ok = measure(rewritten->graph, trial); !ok) return fail(ok.error());
    trials.push_back(std::move(trial));
    return trials.size() - 1;
  }

  Status keep_as_it_is() {
    tuning_.trials = {tuning_.as_it_is};
    return {};
  }

  Status search() {
    if (auto ok = swap_all(); !ok) return ok;
    const std::vector<std::size_t> latest = that_fit_;
    for (const std::size_t trial : latest) {
      if (auto ok = bring_back_earlier(trial); !ok) return ok;
    }
    std::stable_sort(that_fit_.begin(), that_fit_.end(), [&](std::size_t a, std::size_t b) {
      return tuning_.trials[a].step < tuning_.trials[b].step;
    });
    for (const std::size_t trial : that_fit_) {
      if (auto ok = swap_fewer(trial); !ok) return ok;
    }
    return {};
  }

  // All tensors, as late as possible.
  [[nodiscard]] LmsOptions with(const char* strategy, bool branches) const {
    LmsOptions parameters = options_.fixed;
    parameters.n_tensors = -1;
    parameters.lb = 1;
    parameters.ctrld_strategy = strategy;
    parameters.swap_branches = branches;
    return parameters;
  }

  Status swap_all() {
    for (const char* strategy : {"chain_rule", "direct_order"}) {
      for (const bool branches : {false, true}) {
        const auto trial = make(with(strategy, branches));
        if (!trial) return fail(trial.error());
        if (!*trial) return {};
        if (tuning_.trials[**trial].fits && !is_beaten(**trial)) that_fit_.push_back(**trial);
      }
    }
    return {};
  }

  // Whether an earlier trial is no worse: one strategy finds what the other does, or there are no
  // branches, or they do not help. A strategy that is worse at first may be better further on.
  [[nodiscard]] bool is_beaten(std::size_t trial) const {
    const TuneTrial& it = tuning_.trials[trial];
    for (std::size_t i = 0; i < trial; ++i) {
      const TuneTrial& earlier = tuning_.trials[i];
      const bool is_same = earlier.peak == it.peak && earlier.step == it.step &&
                           earlier.bytes_swapped == it.bytes_swapped;
      const bool is_worse = earlier.peak <= it.peak && earlier.step <= it.step;
      if (is_same || (it.parameters.swap_branches && is_worse)) return true;
    }
    return false;
  }

  Status bring_back_earlier(std::size_t latest) {
    LmsOptions parameters = tuning_.trials[latest].parameters;
    for (const std::int64_t lb : kLbs) {
      if (lb > parameters.ub) return {};
      parameters.lb = lb;
      const auto trial = make(parameters);
      if (!trial) return fail(trial.error());
      if (!*trial || !tuning_.trials[**trial].fits) return {};
      that_fit_.push_back(**trial);
    }
    return {};
  }

  Status swap_fewer(std::size_t all) {
    LmsOptions parameters = tuning_.trials[all].parameters;
    auto enough = static_cast<std::int64_t>(tuning_.trials[all].tensors_swapped);
    std::int64_t too_few = 0;
    // Moves one of the two to `n` where that is between them; false: there were enough trials.
    const auto probe = [&](std::int64_t n) -> Result<bool> {
      if (n <= too_few || n >= enough) return true;
      parameters.n_tensors = n;
      const auto trial = make(parameters);
      if (!trial) return fail(trial.error());
      if (!*trial) return false;
      (tuning_.trials[**trial].fits ? enough : too_few) = n;
      return true;
    };
    // What was enough before is near what is enough here.
    if (fewest_before_) {
      const std::int64_t near = grain(*fewest_before_);
      for (const std::int64_t offset : {std::int64_t{0}, -near, near}) {
        const auto went_on = probe(*fewest_before_ + offset);
        if (!went_on) return fail(went_on.error());
      }
    }
    while (enough - too_few > grain(enough)) {
      const auto went_on = probe(too_few + (enough - too_few) / 2);
      if (!went_on) return fail(went_on.error());
      if (!*went_on) return {};
    }
    fewest_before_ = enough;
    return {};
  }

  void choose() {
    const auto by_time = [](const TuneTrial& a, const TuneTrial& b) {
      return std::tie(a.step, a.bytes_swapped, a.peak) < std::tie(b.step, b.bytes_swapped, b.peak);
    };
    const auto& trials = tuning_.trials;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      if (trials[i].peak < trials[tuning_.least].peak) tuning_.least = i;
      if (!trials[i].fits) continue;
      if (!tuning_.best || by_time(trials[i], trials[*tuning_.best])) tuning_.best = i;
    }
  }

  const Graph& graph_;
  const Device& device_;
  const TuneOptions& options_;
  const Profile* profile_;
  Tuning tuning_;
  std::vector<std::size_t> that_fit_;          // trials that swap all tensors
  std::optional<std::int64_t> fewest_before_;  // as swap_fewer found them last
};

}  // namespace

Result<Tuning> tune(const Graph& graph, const Device& device, const TuneOptions& options,
                    const Profile* profile) {
  return Tuner(graph, device, options, profile).run();
}

}  // namespace ebb
