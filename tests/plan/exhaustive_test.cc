// The planner against the best there is, on steps so small that everything can be tried.
#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/graph/print.h"
#include "ebb/plan/plan.h"
#include "tests/meaning/random_graph.h"
#include "tests/plan/dice.h"
#include "tests/plan/every_choice.h"

namespace ebb {
namespace {

// Copies of most values take between a quarter of what an operation takes and ten times that.
Device small_device(Dice& dice) {
  Device device;
  device.name = "small";
  device.memory_bandwidth = {1e12};
  device.launch = Duration{0};
  device.alignment = Bytes{4};
  const double speed = dice.pick(std::vector<double>{1e8, 3e8, 6e8, 1e9, 2e9, 4e9});
  const double both = speed * (dice.one_in(2) ? 1 : 0.6);
  device.link = {.to_host = {speed},
                 .to_device = {speed * (dice.one_in(2) ? 1 : 1.5)},
                 .to_host_both = {both},
                 .to_device_both = {both}};
  if (dice.one_in(3)) device.link.latency = Duration{100};
  if (dice.one_in(4)) device.link.shortest = Duration{300};
  return device;
}

// How much longer plans take than what was found by trying, in per cent.
struct Excess {
  int plans = 0;
  int beaten = 0;
  int given_up = 0;
  double sum = 0;
  double worst = 0;
  std::string worst_case;

  void compare(int values, std::uint64_t seed, const EveryChoiceOptions& options) {
    Dice dice(seed);
    const Graph step = small_step(seed, values);
    const Device device = small_device(dice);
    // Tiny tensors stay: they are none of the choices that are tried.
    PlanOptions limits{.min_bytes = Bytes{40}};
    const Planned none = make_plan(step, device, limits).value();
    const Bytes least = none.infeasible->least;
    const Bytes room = none.unconstrained - least;
    if (room.count * 10 < none.unconstrained.count) return;
    const auto percent = static_cast<std::int64_t>(dice.below(dice.one_in(3) ? 20 : 90));
    limits.budget = least + Bytes{room.count * percent / 100};
    const Planned planned = make_plan(step, device, limits).value();
    if (!planned.plan) {
      ADD_FAILURE() << "no plan for " << values << " values, seed " << seed;
      return;
    }
    const EveryChoice tried =
        try_every_choice(step, device, limits.budget, planned.plan->step(), options);
    const auto took = static_cast<double>(planned.plan->step().count());
    const double excess = (took / static_cast<double>(tried.step.count()) - 1) * 100;
    ++plans;
    sum += excess;
    if (tried.is_better) ++beaten;
    if (!tried.is_complete) ++given_up;
    if (excess <= worst) return;
    worst = excess;
    worst_case = fmt::format("{} values, seed {}, budget {}: {} instead of {}, by\n{}and not\n",
                             values, seed, to_text(limits.budget), to_text(planned.plan->step()),
                             to_text(tried.step), tried.decisions);
    for (const PlanFile::Line& line : planned.plan->file.decisions) worst_case += line.text + "\n";
    worst_case += print(step);
  }

  void expect_small() const {
    fmt::print(
        "{} plans, {:.3f} % above the best on average, {:.2f} % at worst; {} were beaten, "
        "and of {} not everything was tried\n",
        plans, sum / plans, worst, beaten, given_up);
    EXPECT_LE(sum / plans, 3) << worst_case;
    EXPECT_LE(worst, 15) << worst_case;
  }
};

TEST(PlansOfSmallSteps, AreNearlyTheBestThereIs) {
  Excess excess;
  for (const int values : {4, 5, 6, 7, 8}) {
    for (std::uint64_t seed = 0, end = how_many(9'000) / 30; seed < end; ++seed) {
      excess.compare(values, seed, {});
    }
  }
  EXPECT_LE(excess.given_up, excess.plans / 100);
  excess.expect_small();
}

TEST(PlansOfSmallSteps, OfMoreValuesAreToo) {
  Excess excess;
  for (const int values : {9, 10, 11, 12}) {
    for (std::uint64_t seed = 0, end = std::max<std::uint64_t>(2, how_many(10'000) / 500);
         seed < end; ++seed) {
      excess.compare(values, seed, {.every_line = false, .limit = 200'000});
    }
  }
  excess.expect_small();
}

}  // namespace
}  // namespace ebb
