// What planning promises for every step, budget and machine, tried on many random ones: a plan is
// right, or there is none and the budget that would do is named.
#include <string>

#include <gtest/gtest.h>

#include "ebb/plan/plan.h"
#include "tests/meaning/random_graph.h"
#include "tests/plan/random_case.h"
#include "tests/plan/random_step.h"

namespace ebb {
namespace {

TEST(RandomPlans, AreRightOrNameABudgetThatWouldDo) {
  int failures = 0;
  for (std::uint64_t seed = 0, end = how_many(10'000); seed < end && failures < 5; ++seed) {
    const PlanCase it = random_case(seed);
    const std::string problem = problem_of(it);
    if (problem.empty()) continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << ": " << problem << "\n" << it.text();
  }
}

// Graphs that are no training steps and have something of everything. Most have unknown sizes or
// were rewritten before, and are refused.
TEST(RandomPlans, OfAnyGraphAreRightToo) {
  int planned = 0;
  for (std::uint64_t seed = 0, end = how_many(10'000); seed < end; ++seed) {
    PlanCase it{.graph = random_graph(seed, {.nodes = static_cast<int>(3 + seed % 15)}),
                .device = random_device(seed),
                .options = {.evaluations = 30}};
    const auto all = make_plan(it.graph, it.device, it.options);
    if (!all) continue;
    ++planned;
    it.options.budget = Bytes{all->unconstrained.count * static_cast<int>(10 + seed % 90) / 100};
    const std::string problem = problem_of(it);
    ASSERT_EQ(problem, "") << "seed " << seed << "\n" << it.text();
  }
  EXPECT_GE(planned, static_cast<int>(how_many(10'000) / 50));
}

TEST(RandomPlans, AreTheSameForTheSameInput) {
  for (std::uint64_t seed = 0, end = how_many(300); seed < end; ++seed) {
    const PlanCase it = random_case(seed);
    const auto once = make_plan(it.graph, it.device, it.options);
    const auto twice = make_plan(it.graph, it.device, it.options);
    ASSERT_EQ(once.has_value(), twice.has_value());
    if (!once) continue;
    ASSERT_EQ(once->plan == nullptr, twice->plan == nullptr);
    if (once->plan && twice->plan) {
      ASSERT_EQ(to_text(once->plan->file), to_text(twice->plan->file)) << "seed " << seed;
    }
    if (once->infeasible && twice->infeasible) {
      ASSERT_EQ(once->infeasible->least, twice->infeasible->least) << "seed " << seed;
    }
  }
}

// Or the claims above would be about little.
TEST(RandomPlans, AreOfEveryKind) {
  int kept = 0;
  int swapped = 0;
  int recomputed = 0;
  int impossible = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const PlanCase it = random_case(seed);
    const auto planned = make_plan(it.graph, it.device, it.options);
    if (!planned) continue;
    if (planned->infeasible) ++impossible;
    if (!planned->plan) continue;
    if (planned->plan->file.decisions.empty()) ++kept;
    if (decides(planned->plan->file, "swap")) ++swapped;
    if (decides(planned->plan->file, "recompute")) ++recomputed;
  }
  EXPECT_GE(kept, 10);
  EXPECT_GE(swapped, 10);
  EXPECT_GE(recomputed, 10);
  EXPECT_GE(impossible, 10);
}

}  // namespace
}  // namespace ebb
