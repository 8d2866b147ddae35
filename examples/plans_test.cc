// Plans for the examples.
#include <algorithm>
#include <atomic>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ebb/plan/arena.h"
#include "ebb/plan/evaluate.h"
#include "ebb/plan/layout.h"
#include "ebb/plan/plan.h"
#include "ebb/plan/restarts.h"
#include "ebb/plan/simulate.h"
#include "ebb/plan/sweep.h"
#include "ebb/plan/validate.h"
#include "examples/models.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

class PlanExample : public testing::TestWithParam<Result<Graph> (*)()> {
 protected:
  Graph graph_ = GetParam()().value();
  Device device_ = find_device("h200").value();
  Bytes all_ = unconstrained_bytes(graph_, device_, {}).value();

  [[nodiscard]] Bytes part(int percent) const { return Bytes{all_.count / 100 * percent}; }

  Planned plan(PlanOptions options) const {
    options.evaluations = kSanitized ? 10 : 300;
    Planned planned = make_plan(graph_, device_, options).value();
    if (planned.plan) {
      const Status right = validate_plan(graph_, planned.plan->file, device_);
      EXPECT_TRUE(right) << right.error().message;
    }
    return planned;
  }
};

TEST_P(PlanExample, FitsIntoEveryBudgetOrSaysTheLeast) {
  const auto percents =
      kSanitized ? std::vector<int>{30} : std::vector<int>{100, 80, 60, 40, 30, 20};
  for (const int percent : percents) {
    const Planned planned = plan({.budget = part(percent)});
    if (planned.plan) {
      EXPECT_LE(planned.plan->peak(), part(percent));
      // The model of choices and the rewritten graph agree about time.
      EXPECT_GE(planned.plan->step(), planned.unconstrained_step);
    } else {
      EXPECT_GT(planned.infeasible->least, part(percent));
      EXPECT_TRUE(plan({.budget = planned.infeasible->least}).plan);
    }
  }
}

TEST_P(PlanExample, BothMeansTogetherAreAtLeastAsFastAsEither) {
  for (const int percent : kSanitized ? std::vector<int>{70} : std::vector<int>{80, 70, 60}) {
    const Planned both = plan({.budget = part(percent)});
    if (!both.plan) continue;
    const Planned swaps = plan({.budget = part(percent), .may_recompute = false});
    const Planned clones = plan({.budget = part(percent), .may_swap = false});
    if (swaps.plan) {
      EXPECT_LE(both.plan->step(), swaps.plan->step()) << percent;
    }
    if (clones.plan) {
      EXPECT_LE(both.plan->step(), clones.plan->step()) << percent;
    }
  }
}

// So the planner knows beforehand whether offsets will fit.
TEST_P(PlanExample, ChoicesAndTheRewrittenGraphAgreeAboutOffsets) {
  int plans = 0;
  for (const int percent : kSanitized ? std::vector<int>{85} : std::vector<int>{85, 70, 60}) {
    for (const bool may_recompute : {true, false}) {
      const Planned planned = plan({.budget = part(percent), .may_recompute = may_recompute});
      if (!planned.plan) continue;
      ++plans;
      const Plan& it = *planned.plan;
      Evaluator evaluator(it.model, it.gaps, it.costs.link, {.budget = it.evaluated_for});
      ASSERT_EQ(evaluator.evaluate(it.choices).verdict, Verdict::kFits);
      const Bytes state = evaluator.state_size();
      LayoutOptions options{.alignment = device_.alignment};
      Layout layout = lay_out(evaluator.buffers(), options);
      options.enough = part(percent) - state;
      if (layout.size > options.enough) layout = lay_out(evaluator.buffers(), options);
      EXPECT_EQ(state, it.arena.state_size);
      EXPECT_EQ(state + layout.bound, it.arena.bound);
      EXPECT_EQ(state + layout.size, it.arena.size);
    }
  }
  EXPECT_GT(plans, 0);
}

// So who runs a plan that fits by the usual layout need not know its budget.
TEST_P(PlanExample, AStepThatFitsHasTheSameLayoutWhateverItsBudget) {
  int plans = 0;
  for (const int percent : {85, 70}) {
    const Planned planned = plan({.budget = part(percent), .may_recompute = false});
    if (!planned.plan) continue;
    ++plans;
    const ArenaNeeds needs = needs_of(planned.plan->graph, planned.plan->costs.workspace);
    ArenaOptions options{.alignment = device_.alignment};
    options.budget = part(percent);
    EXPECT_EQ(arrange(planned.plan->graph, needs, options).storages, planned.plan->arena.storages);
    options.budget = kNoLimit;
    const Arena alone = arrange(planned.plan->graph, needs, options);
    for (const Bytes more : {Bytes{}, Bytes{alone.size.count / 20}, alone.size}) {
      options.budget = alone.size + more;
      EXPECT_EQ(arrange(planned.plan->graph, needs, options).storages, alone.storages);
    }
  }
  EXPECT_GT(plans, 0);
}

// Also where what was planned without regard to the host is taken, because it fits there.
TEST_P(PlanExample, APlanMadeOfItsOwnFileIsTheSameText) {
  int plans = 0;
  for (const int percent : kSanitized ? std::vector<int>{85} : std::vector<int>{85, 55, 35}) {
    PlanOptions options{.budget = part(percent)};
    const Planned without = plan(options);
    if (!without.plan) continue;
    ++plans;
    options.host_budget = without.plan->arena.host_size;
    for (const PlanOptions& each : {PlanOptions{.budget = part(percent)}, options}) {
      const Planned made = plan(each);
      ASSERT_TRUE(made.plan);
      EXPECT_EQ(made.plan->file.host_budget, each.host_budget);
      const auto again = plan_of_file(graph_, device_, each, made.plan->file);
      ASSERT_TRUE(again);
      EXPECT_EQ(to_text(again->plan->file), to_text(made.plan->file));
    }
  }
  EXPECT_GT(plans, 0);
}

TEST_P(PlanExample, EqualInputsGiveEqualPlans) {
  const PlanOptions most{.budget = part(75)};
  EXPECT_EQ(to_text(plan(most).plan->file), to_text(plan(most).plan->file));
}

TEST_P(PlanExample, WithMoreMemoryAStepIsNeverSlower) {
  std::vector budgets = {part(90), part(60), part(100), part(70), part(80), part(30)};
  if (kSanitized) budgets.resize(2);
  const Sweep swept = sweep(graph_, device_, {.evaluations = kSanitized ? 3 : 30}, budgets).value();
  const SweepPoint* last = nullptr;
  for (const SweepPoint& point : swept.points) {
    if (last != nullptr) {
      EXPECT_LT(last->budget, point.budget);
    }
    if (last != nullptr && last->plan) {
      ASSERT_TRUE(point.plan);
      EXPECT_LE(point.plan->step(), last->plan->step());
      EXPECT_GE(point.plan->peak(), last->plan->peak());
    }
    if (point.plan) {
      EXPECT_LE(point.plan->peak(), point.budget);
    }
    last = &point;
  }
}

TEST(FastestPlan, IsTheFastestOfItsSeeds) {
  const Graph graph = examples::resnet().value();
  const Device device = find_device("h200").value();
  PlanOptions options{.evaluations = kSanitized ? 10 : 30};
  options.budget = Bytes{unconstrained_bytes(graph, device, options).value().count / 100 * 60};
  constexpr int kSeeds = 4;
  const Planned fastest = make_fastest_plan(graph, device, options, kSeeds).value();
  ASSERT_TRUE(fastest.plan);
  ASSERT_LT(fastest.plan->step(), fastest.unconstrained_step * 3 / 2) << "seeds go on";
  std::set<Duration> steps;
  for (int i = 0; i < kSeeds; ++i, ++options.seed) {
    const Planned planned = make_plan(graph, device, options).value();
    if (planned.plan) steps.insert(planned.plan->step());
  }
  EXPECT_GT(steps.size(), kSanitized ? 0U : 1U) << "all seeds are alike: this shows nothing";
  EXPECT_EQ(fastest.plan->step(), *steps.begin());
}

TEST(FastestPlan, WhereMuchIsLostTheBetterHalfOfTheSeedsGoesOn) {
  const Graph graph = examples::resnet().value();
  const Device device = find_device("h200").value();
  PlanOptions options{.may_recompute = false, .evaluations = kSanitized ? 2 : 60};
  options.budget = Bytes{unconstrained_bytes(graph, device, options).value().count / 100 * 60};
  constexpr std::size_t kSeeds = kSanitized ? 2 : 4;
  const Planned fastest = make_fastest_plan(graph, device, options, kSeeds).value();
  ASSERT_TRUE(fastest.plan);
  std::vector<std::pair<Duration, std::uint64_t>> tried;
  for (; tried.size() < kSeeds; ++options.seed) {
    const Planned planned = make_plan(graph, device, options).value();
    ASSERT_TRUE(planned.plan);
    tried.emplace_back(planned.plan->step(), options.seed);
  }
  std::sort(tried.begin(), tried.end());
  ASSERT_GT(tried[0].first, fastest.unconstrained_step * 3 / 2) << "little is lost";
  options.effort = 4;
  std::vector<Duration> longer{tried[0].first};
  for (std::size_t i = 0; i < kSeeds / 2; ++i) {
    options.seed = tried[i].second;
    longer.push_back(make_plan(graph, device, options).value().plan->step());
  }
  EXPECT_EQ(fastest.plan->step(), *std::min_element(longer.begin(), longer.end()));
  if (!kSanitized) {
    EXPECT_LT(fastest.plan->step(), tried[0].first) << "to go on does not help: this shows nothing";
  }
}

// Copies hide less well by a rendezvous, and plans for it count on that.
TEST(TensorFlowPlan, IsMadeForTheWayInWhichItsCopiesWait) {
  const Graph graph = examples::resnet().value();
  const Device device = find_device("h200").value();
  PlanOptions options{.clock = Clock::kRendezvous, .evaluations = kSanitized ? 10 : 300};
  const int percent = kSanitized ? 60 : 40;
  options.budget = Bytes{unconstrained_bytes(graph, device, options).value().count / 100 * percent};
  const Planned rendezvous = make_plan(graph, device, options).value();
  options.clock = Clock::kEnqueued;
  const Planned kernels = make_plan(graph, device, options).value();
  ASSERT_TRUE(rendezvous.plan && kernels.plan);
  EXPECT_LE(rendezvous.plan->peak(), options.budget);
  EXPECT_LE(kernels.plan->peak(), options.budget);
  const Timeline other = simulate(kernels.plan->graph, kernels.plan->costs, Clock::kRendezvous);
  if (!kSanitized) {  // which leaves little time to search
    EXPECT_LT(kernels.plan->step(), other.total);
    EXPECT_LT(rendezvous.plan->step(), other.total);
  }
}

TEST(FastestPlan, OneThatLosesLittleIsEnough) {
  const Graph graph = examples::resnet().value();
  const Device device = find_device("h200").value();
  std::atomic<int> searches = 0;
  PlanOptions options{.evaluations = 10};
  // Asked before the first evaluation, and a search that is out of time ends.
  options.is_out_of_time = [&] { return ++searches > 0; };
  const Bytes all = unconstrained_bytes(graph, device, options).value();
  options.budget = Bytes{all.count / 100 * 88};
  ASSERT_TRUE(make_plan(graph, device, options).value().plan);
  const int of_one_plan = searches.exchange(0);
  ASSERT_GT(of_one_plan, 0);
  const Planned little = make_fastest_plan(graph, device, options).value();
  ASSERT_LT(little.plan->step(), little.unconstrained_step * 105 / 100);
  EXPECT_EQ(searches.exchange(0), of_one_plan);
  options.budget = Bytes{all.count / 100 * 60};
  ASSERT_TRUE(make_plan(graph, device, options).value().plan);
  const int of_one_with_less = searches.exchange(0);
  const Planned more = make_fastest_plan(graph, device, options).value();
  ASSERT_GT(more.plan->step(), more.unconstrained_step * 105 / 100);
  EXPECT_GT(searches, 2 * of_one_with_less);
}

INSTANTIATE_TEST_SUITE_P(Examples, PlanExample,
                         testing::Values([] { return examples::resnet(); },
                                         [] { return examples::unet(); },
                                         [] { return examples::transformer(); }));

}  // namespace
}  // namespace ebb
