// Plans for steps of known architectures keep what they promise.
#include <vector>

#include <gtest/gtest.h>

#include "ebb/plan/plan.h"
#include "ebb/plan/validate.h"
#include "examples/models.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

TEST(ExamplePlans, AreRightForEveryBudget) {
  const Device device = find_device("h200").value();
  const std::vector<Result<Graph>> steps = {examples::mlp(), examples::resnet(), examples::unet(),
                                            examples::transformer()};
  const auto percents =
      kSanitized ? std::vector<int>{35} : std::vector<int>{110, 80, 60, 45, 35, 25};
  for (const Result<Graph>& step : steps) {
    const Graph& graph = step.value();
    const Bytes all = unconstrained_bytes(graph, device, {}).value();
    for (const int percent : percents) {
      const Bytes budget{all.count / 100 * percent};
      const Planned planned =
          make_plan(graph, device, {.budget = budget, .evaluations = kSanitized ? 5 : 50}).value();
      if (!planned.plan) continue;
      const Status right = validate_plan(graph, planned.plan->file, device);
      EXPECT_TRUE(right) << graph.name() << ", " << percent << " %: " << right.error().message;
    }
  }
}

}  // namespace
}  // namespace ebb
