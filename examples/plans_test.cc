// Plans for the examples.
#include <array>

#include <gtest/gtest.h>

#include "ebb/plan/plan.h"
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
  for (const int percent : {100, 80, 60, 40, 30, 20}) {
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
  for (const int percent : {80, 70, 60}) {
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

TEST_P(PlanExample, EqualInputsGiveEqualPlans) {
  const PlanOptions most{.budget = part(75)};
  EXPECT_EQ(to_text(plan(most).plan->file), to_text(plan(most).plan->file));
}

TEST_P(PlanExample, WithMoreMemoryAStepIsNeverSlower) {
  const std::array budgets = {part(90), part(60), part(100), part(70), part(80), part(30)};
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

INSTANTIATE_TEST_SUITE_P(Examples, PlanExample,
                         testing::Values([] { return examples::resnet(); },
                                         [] { return examples::unet(); },
                                         [] { return examples::transformer(); }));

}  // namespace
}  // namespace ebb
