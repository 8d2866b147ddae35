#include "ebb/plan/restarts.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ebb {
namespace {

constexpr std::uint32_t kMoreEffort = 4;

// Whether the step takes at most this part longer than without a plan.
bool loses_at_most(const Planned& planned, double part) {
  const auto least = static_cast<double>(planned.unconstrained_step.count());
  return planned.plan != nullptr &&
         static_cast<double>(planned.plan->step().count()) <= least * (1 + part);
}

bool is_faster(const Planned& a, const Planned& b) {
  if (a.plan == nullptr) return false;
  return b.plan == nullptr || a.plan->step() < b.plan->step();
}

struct Tried {
  std::uint64_t seed = 0;
  Planned planned;
};

// What several searches have done together, told one at a time.
class SharedProgress {
 public:
  using Tell = decltype(PlanOptions::progress);

  SharedProgress(const Tell& tell, std::size_t searches) : tell_(tell), done_(searches) {}

  [[nodiscard]] Tell of_search(std::size_t search) {
    if (!tell_) return nullptr;
    return [this, search](std::uint32_t done, std::uint32_t of, Duration best) {
      const std::scoped_lock lock(mutex_);
      all_done_ += done - std::exchange(done_[search], done);
      best_ = std::min(best_, best);
      tell_(all_done_, of * static_cast<std::uint32_t>(done_.size()), best_);
    };
  }

 private:
  const Tell& tell_;
  std::mutex mutex_;
  std::vector<std::uint32_t> done_;  // by search
  std::uint32_t all_done_ = 0;
  Duration best_ = Duration::max();
};

// Plans by these seeds, the fastest first; among equals in the order of seeds.
Result<std::vector<Tried>> try_seeds(const Graph& graph, const Device& device,
                                     const PlanOptions& options,
                                     const std::vector<std::uint64_t>& seeds) {
  const std::size_t at_once = std::max(1U, std::thread::hardware_concurrency());
  PlanOptions other = options;
  SharedProgress progress(options.progress, seeds.size());
  std::vector<Tried> tried;
  for (std::size_t done = 0; done < seeds.size(); done += at_once) {
    // Behind a pointer: what a future holds must have a default.
    std::vector<std::future<std::unique_ptr<Result<Planned>>>> plans;
    for (std::size_t i = done; i < std::min(done + at_once, seeds.size()); ++i) {
      other.seed = seeds[i];
      other.progress = progress.of_search(i);
      plans.push_back(std::async(std::launch::async, [&graph, &device, other] {
        return std::make_unique<Result<Planned>>(make_plan(graph, device, other));
      }));
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
      auto made = plans[i].get();
      if (!*made) return fail(made->error());
      tried.push_back({seeds[done + i], std::move(**made)});
    }
  }
  std::stable_sort(tried.begin(), tried.end(),
                   [](const Tried& a, const Tried& b) { return is_faster(a.planned, b.planned); });
  return tried;
}

}  // namespace

Result<Planned> make_fastest_plan(const Graph& graph, const Device& device,
                                  const PlanOptions& options, int seeds) {
  constexpr double kLittle = 0.05;
  constexpr double kMuch = 0.5;
  Result<Planned> best = make_plan(graph, device, options);
  if (!best || loses_at_most(*best, kLittle)) return best;
  std::vector<std::uint64_t> next;
  for (int i = 1; i < seeds; ++i) next.push_back(options.seed + static_cast<std::uint64_t>(i));
  auto tried = try_seeds(graph, device, options, next);
  if (!tried) return fail(tried.error());
  tried->insert(tried->begin(), Tried{options.seed, *std::move(best)});
  std::stable_sort(tried->begin(), tried->end(),
                   [](const Tried& a, const Tried& b) { return is_faster(a.planned, b.planned); });
  if (tried->front().planned.plan == nullptr || loses_at_most(tried->front().planned, kMuch)) {
    return std::move(tried->front().planned);
  }
  // Search of a seed begins with what it has done already.
  next.clear();
  for (std::size_t i = 0; i < (tried->size() + 1) / 2; ++i) next.push_back((*tried)[i].seed);
  PlanOptions longer = options;
  longer.effort *= kMoreEffort;
  auto again = try_seeds(graph, device, longer, next);
  if (!again) return fail(again.error());
  Planned& fastest = again->front().planned;
  return std::move(is_faster(fastest, tried->front().planned) ? fastest : tried->front().planned);
}

}  // namespace ebb
