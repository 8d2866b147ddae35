#include "ebb/plan/restarts.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <tuple>
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

// What several searches have done together: they count, and whoever waits for them tells it.
class SharedProgress {
 public:
  using Tell = decltype(PlanOptions::progress);

  SharedProgress(const Tell& tell, std::size_t searches) : tell_(tell), done_(searches) {}

  [[nodiscard]] Tell of_search(std::size_t search) {
    if (!tell_) return nullptr;
    return [this, search](std::uint32_t done, std::uint32_t of, Duration best) {
      const std::scoped_lock lock(mutex_);
      all_done_ += done - std::exchange(done_[search], done);
      of_ = of * static_cast<std::uint32_t>(done_.size());
      best_ = std::min(best_, best);
    };
  }

  void tell() {
    if (!tell_) return;
    std::unique_lock lock(mutex_);
    if (all_done_ == told_) return;
    told_ = all_done_;
    const auto [done, of, best] = std::tuple(all_done_, of_, best_);
    lock.unlock();
    tell_(done, of, best);
  }

 private:
  const Tell& tell_;
  std::mutex mutex_;
  std::vector<std::uint32_t> done_;  // by search
  std::uint32_t all_done_ = 0;
  std::uint32_t of_ = 0;
  std::uint32_t told_ = 0;
  Duration best_ = Duration::max();
};

// Has searches end, whichever way they are left.
class Ending {
 public:
  explicit Ending(std::atomic<bool>& is_over) : is_over_(is_over) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() { is_over_ = true; }

 private:
  std::atomic<bool>& is_over_;
};

// Adds plans by these seeds, each made on a thread of its own.
Status try_at_once(const Graph& graph, const Device& device, const PlanOptions& options,
                   std::span<const std::uint64_t> seeds, SharedProgress& progress,
                   std::vector<Tried>& tried) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  std::atomic<bool> is_over = false;
  PlanOptions other = options;
  other.is_out_of_time = [&] {
    return is_over || (options.is_out_of_time && options.is_out_of_time());
  };
  // Behind a pointer: what a future holds must have a default. Futures wait for their threads.
  std::vector<std::future<std::unique_ptr<Result<Planned>>>> plans;
  const Ending ending(is_over);
  for (const std::uint64_t seed : seeds) {
    other.seed = seed;
    other.progress = progress.of_search(tried.size() + plans.size());
    plans.push_back(std::async(std::launch::async, [&graph, &device, other] {
      return std::make_unique<Result<Planned>>(make_plan(graph, device, other));
    }));
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    while (plans[i].wait_for(kPause) != std::future_status::ready) progress.tell();
    progress.tell();
    auto made = plans[i].get();
    if (!*made) return fail(made->error());
    tried.push_back({seeds[i], std::move(**made)});
  }
  return {};
}

void put_fastest_first(std::vector<Tried>& tried) {
  std::stable_sort(tried.begin(), tried.end(),
                   [](const Tried& a, const Tried& b) { return is_faster(a.planned, b.planned); });
}

// Plans by these seeds, the fastest first; among equals in the order of seeds.
Result<std::vector<Tried>> try_seeds(const Graph& graph, const Device& device,
                                     const PlanOptions& options,
                                     std::span<const std::uint64_t> seeds) {
  const std::size_t at_once = std::max(1U, std::thread::hardware_concurrency());
  SharedProgress progress(options.progress, seeds.size());
  std::vector<Tried> tried;
  while (tried.size() < seeds.size()) {
    const auto next = seeds.subspan(tried.size());
    const auto now = next.first(std::min(at_once, next.size()));
    if (Status ok = try_at_once(graph, device, options, now, progress, tried); !ok) {
      return fail(ok.error());
    }
  }
  put_fastest_first(tried);
  return tried;
}

}  // namespace

Result<Planned> make_fastest_plan(const Graph& graph, const Device& device,
                                  const PlanOptions& options, int seeds) {
  constexpr double kLittle = 0.05;
  constexpr double kMuch = 0.5;
  Result<Planned> best = make_plan(graph, device, options);
  if (!best || seeds <= 1 || best->floor > best->budget || loses_at_most(*best, kLittle)) {
    return best;
  }
  std::vector<std::uint64_t> next;
  for (int i = 1; i < seeds; ++i) next.push_back(options.seed + static_cast<std::uint64_t>(i));
  auto tried = try_seeds(graph, device, options, next);
  if (!tried) return fail(tried.error());
  tried->insert(tried->begin(), Tried{options.seed, *std::move(best)});
  put_fastest_first(*tried);
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

int seeds_for_step(bool is_on_cpu, const PlanOptions& options) {
  return is_on_cpu || options.evaluations ? 1 : kUsualSeeds;
}

}  // namespace ebb
