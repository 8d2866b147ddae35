#include "ebb/plan/planner.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/decide.h"
#include "ebb/plan/simulate.h"
#include "ebb/rewrite/proof.h"
#include "examples/models.h"

namespace ebb {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

// A link of one byte a nanosecond each way, also both at once.
Link link_of(double bytes_per_nanosecond) {
  const Bandwidth speed{bytes_per_nanosecond * 1e9};
  return {.to_host = speed, .to_device = speed, .to_host_both = speed, .to_device_both = speed};
}

StepCosts costs_in_text(const Graph& graph, const Link& link) {
  StepCosts costs;
  for (const NodeId node : graph.nodes()) {
    costs.compute.push_back(graph.takes(node).value_or(Duration::zero()));
    costs.workspace.push_back(graph.workspace(node));
    costs.source.push_back(CostSource::kText);
  }
  costs.link = link;
  return costs;
}

struct Planned {
  PlannerResult result;
  Duration simulated{};  // of the rewritten graph
  Bytes peak;
  int swaps = 0;
  int recomputations = 0;
};

// Plans, rewrites, and checks that the rewritten graph is the same computation, fits, and takes as
// long as was said.
Planned plan(const Graph& graph, const StepCosts& costs, Bytes budget,
             const StepModelOptions& choices = {.alignment = Bytes{1}}) {
  const StepModel model = model_step(graph, costs, choices).value();
  const std::vector<Gap> gaps = find_gaps(model);
  PlannerOptions options{.budget = budget};
  options.evaluations = 200;
  Planned planned{.result = choose(model, gaps, costs.link, options)};
  if (!planned.result.fits) return planned;
  for (const Means means : planned.result.choices) {
    planned.swaps += means == Means::kSwap ? 1 : 0;
    planned.recomputations += means == Means::kRecompute ? 1 : 0;
  }
  Evaluator evaluator(model, gaps, costs.link, {.budget = budget});
  const Evaluation& evaluation = evaluator.evaluate(planned.result.choices);
  EXPECT_EQ(evaluation.verdict, Verdict::kFits);
  EXPECT_EQ(evaluation.total, planned.result.total);
  Graph rewritten = graph;
  Rewriter rewriter(rewritten);
  const auto refused = apply_choices(model, evaluation, rewriter);
  EXPECT_FALSE(refused) << refused->why;
  rewriter.settle();
  prove_rewrite(graph, rewritten);
  StepCosts after = costs_in_text(rewritten, costs.link);
  for (const NodeId node : rewritten.nodes()) {
    const NodeId original = node.index() < graph.node_count() ? node : rewritten.clone_of(node);
    if (!original.valid()) continue;
    after.compute[node.index()] = costs.compute[original.index()];
    after.workspace[node.index()] = costs.workspace[original.index()];
  }
  planned.simulated = simulate(rewritten, after).total;
  planned.peak = memory_curve(rewritten, find_lives(rewritten)).peak;
  EXPECT_LE(planned.peak, budget);
  EXPECT_NEAR(static_cast<double>(planned.simulated.count()),
              static_cast<double>(planned.result.total.count()), 2.0);  // rounding of copies
  return planned;
}

// %a is needed again at the end, and 300 bytes are a third of what there is at the peak.
constexpr std::string_view kStep = R"(graph step {
  input %x: f32[25]
  %a: f32[75] = my::f(%x) takes 100ns
  %b: f32[75] = my::f(%a) takes 400ns
  %c: f32[75] = my::f(%b) takes 400ns
  %d: f32[75] = my::f(%c) takes 400ns
  %e: f32[75] = my::f(%d) takes 400ns
  %r: f32[25] = my::g(%e, %a) takes 100ns
  return %r
}
)";

TEST(Planner, WithEnoughMemoryNothingIsDone) {
  const Graph graph = parse_valid(kStep).value();
  const StepCosts costs = costs_in_text(graph, link_of(1));
  const Bytes all = memory_curve(graph, find_lives(graph)).peak;
  EXPECT_EQ(all, Bytes{900});  // %a, and two neighbours
  const Planned planned = plan(graph, costs, all);
  EXPECT_EQ(planned.result.total, 1800ns);
  EXPECT_EQ(planned.swaps + planned.recomputations, 0);
}

TEST(Planner, ASwapThatHidesCostsNothing) {
  const Graph graph = parse_valid(kStep).value();
  // 300 ns out, behind %b; 300 ns back, behind %e. The random form cannot be computed again.
  StepModelOptions swaps_only{.alignment = Bytes{1}};
  swaps_only.may_recompute = false;
  const Planned planned = plan(graph, costs_in_text(graph, link_of(1)), Bytes{700}, swaps_only);
  ASSERT_TRUE(planned.result.fits);
  EXPECT_EQ(planned.result.total, 1800ns);
  EXPECT_EQ(planned.swaps, 1);
}

TEST(Planner, WhereTheLinkIsSlowAnOperationRunsAgain) {
  const Graph graph = parse_valid(kStep).value();
  // At a tenth of the speed a copy takes 3 us each way; %a again takes 100 ns, from %x, which is
  // 100 bytes and then stays.
  const Planned planned = plan(graph, costs_in_text(graph, link_of(0.1)), Bytes{800});
  ASSERT_TRUE(planned.result.fits);
  EXPECT_EQ(planned.result.total, 1900ns);
  EXPECT_EQ(planned.recomputations, 1);
  EXPECT_EQ(planned.swaps, 0);
}

TEST(Planner, NothingFitsBelowWhatOneOperationNeeds) {
  const Graph graph = parse_valid(kStep).value();
  const Planned planned = plan(graph, costs_in_text(graph, link_of(1)), Bytes{699});
  EXPECT_FALSE(planned.result.fits);  // %e, %a and %r are 700 bytes
}

TEST(Planner, ExamplesFitIntoEveryBudgetForWhichThereIsAPlanAndTakeAsLongAsSaid) {
  for (const auto& example : {examples::resnet(), examples::unet(), examples::transformer()}) {
    const Graph graph = example.value();
    const StepCosts costs = estimate_costs(graph, find_device("h200").value()).value();
    const Bytes all = memory_curve(graph, find_lives(graph)).peak;
    Duration last{};
    for (const int percent : {100, 80, 60, 40, 30, 20}) {
      const Planned planned = plan(graph, costs, Bytes{all.count / 100 * percent});
      if (!planned.result.fits) continue;
      EXPECT_GE(planned.result.total + planned.result.total / 10, last) << percent;
      last = planned.result.total;
    }
  }
}

TEST(Planner, EqualInputsGiveEqualPlans) {
  const Graph graph = examples::resnet().value();
  const StepCosts costs = estimate_costs(graph, find_device("h200").value()).value();
  const Bytes budget{memory_curve(graph, find_lives(graph)).peak.count / 2};
  EXPECT_EQ(plan(graph, costs, budget).result.choices, plan(graph, costs, budget).result.choices);
}

}  // namespace
}  // namespace ebb
