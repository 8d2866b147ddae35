#include "ebb/plan/plan.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "examples/models.h"

namespace ebb {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

Device table_device(double bytes_per_nanosecond) {
  const Bandwidth speed{bytes_per_nanosecond * 1e9};
  Device device;
  device.name = "table";
  device.memory_bandwidth = {1e15};
  device.launch = Duration{0};
  device.efficiency.memory = 1;
  device.alignment = Bytes{4};
  device.link = {
      .to_host = speed, .to_device = speed, .to_host_both = speed, .to_device_both = speed};
  return device;
}

Planned plan(const Graph& graph, const Device& device, PlanOptions options) {
  options.evaluations = options.evaluations.value_or(300);
  return make_plan(graph, device, options).value();
}

std::string decisions(const Planned& planned) {
  std::string out;
  if (!planned.plan) return "no plan";
  for (const PlanFile::Line& line : planned.plan->file.decisions) out += line.text + "\n";
  return out;
}

// %a is needed again at the end.
constexpr std::string_view kStep = R"(graph step {
  input %x: f32[25]
  %a: f32[75] = my::f(%x) takes 100ns
  %b: f32[75] = my::f(%a) takes 400ns
  %c: f32[75] = my::f(%b) takes 400ns
  %d: f32[25] = my::f(%c) takes 400ns
  %e: f32[25] = my::f(%d) takes 400ns
  %r: f32[25] = my::g(%e, %a) takes 100ns
  return %r
}
)";

TEST(Plan, WithEnoughMemoryNothingIsDone) {
  const Graph graph = parse_valid(kStep).value();
  const Planned planned = plan(graph, table_device(1), {.budget = Bytes{900}});
  EXPECT_EQ(planned.unconstrained, Bytes{900});  // %a, %b and %c, while %c is made
  EXPECT_EQ(decisions(planned), "");
  EXPECT_EQ(planned.plan->step(), 1800ns);
}

// 300 ns out, behind %b; 300 ns back, behind %e, where there is room: %d, %e and %a are 500 bytes.
TEST(Plan, ASwapThatHidesCostsNothing) {
  const Graph graph = parse_valid(kStep).value();
  const Planned planned =
      plan(graph, table_device(1), {.budget = Bytes{700}, .may_recompute = false});
  EXPECT_EQ(decisions(planned), "swap %a for r after d\nmove a.host below b\n");
  EXPECT_EQ(planned.plan->step(), 1800ns);
}

TEST(Plan, ExamplesFitIntoEveryBudgetForWhichThereIsAPlan) {
  for (const auto& example : {examples::resnet(), examples::unet(), examples::transformer()}) {
    const Graph graph = example.value();
    const Device device = find_device("h200").value();
    const Bytes all = unconstrained_bytes(graph, device, {}).value();
    for (const int percent : {100, 80, 60, 40, 30, 20}) {
      const Bytes budget{all.count / 100 * percent};
      const Planned planned = plan(graph, device, {.budget = budget});
      if (planned.plan) {
        EXPECT_LE(planned.plan->peak(), budget);
      }
    }
  }
}

}  // namespace
}  // namespace ebb
