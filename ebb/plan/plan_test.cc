#include "ebb/plan/plan.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/plan/validate.h"

namespace ebb {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

Device table_device(double bytes_per_nanosecond) {
  const Bandwidth speed{bytes_per_nanosecond * 1e9};
  Device device;
  device.name = "table";
  device.memory_bandwidth = {1e15};
  device.launch = Duration{0};
  device.flops.f32 = 1e30;
  device.efficiency.memory = 1;
  device.alignment = Bytes{4};
  device.link = {
      .to_host = speed, .to_device = speed, .to_host_both = speed, .to_device_both = speed};
  return device;
}

// Every plan goes through the validator.
Planned plan(const Graph& graph, const Device& device, PlanOptions options) {
  options.evaluations = options.evaluations.value_or(300);
  Planned planned = make_plan(graph, device, options).value();
  EXPECT_NE(planned.plan == nullptr, planned.infeasible == nullptr);
  if (planned.plan) {
    const Status right = validate_plan(graph, planned.plan->file, device);
    EXPECT_TRUE(right) << right.error().message;
  }
  return planned;
}

std::string decisions(const Planned& planned) {
  std::string out;
  if (!planned.plan) return "no plan";
  for (const PlanFile::Line& line : planned.plan->file.decisions) out += line.text + "\n";
  return out;
}

// Every time is in the text, so that what a plan should be can be worked out by hand. Copies go at
// one byte a nanosecond unless said otherwise, f32[25] is 100 bytes, and nothing works in place.

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
// Computing %a again would take 100 ns, so the swap is better though %a is cheap.
TEST(Plan, ASwapThatHidesCostsNothing) {
  const Graph graph = parse_valid(kStep).value();
  const Planned planned = plan(graph, table_device(1), {.budget = Bytes{700}});
  EXPECT_EQ(decisions(planned), "swap %a for r after d\nmove a.host below b\n");
  EXPECT_EQ(planned.plan->step(), 1800ns);
}

// At a tenth of the speed a copy takes 3 us each way, more than all there is to compute. %a again
// takes 100 ns from %x, 100 bytes that stay for it: 800 at the peak.
TEST(Plan, WhereASwapDoesNotHideAnOperationRunsAgain) {
  const Graph graph = parse_valid(kStep).value();
  const Planned planned = plan(graph, table_device(0.1), {.budget = Bytes{800}});
  EXPECT_EQ(decisions(planned), "recompute %a for r after e\n");
  EXPECT_EQ(planned.plan->step(), 1900ns);
}

// With 600 bytes there is no room for %x beside %a and %b. It goes out (1 us, for which %b waits)
// and comes back when %c has been made, from 1.8 us to 2.8 us; then %a runs again, and %r. Without
// clones %a is swapped: out by 3.1 us, which %c waits for; there is room again when %c is gone, at
// 3.9 us, and %r runs when it is back, at 6.9 us.
TEST(Plan, WhatIsComputedAgainMayReadWhatWasSwapped) {
  const Graph graph = parse_valid(kStep).value();
  const Planned planned = plan(graph, table_device(0.1), {.budget = Bytes{600}});
  EXPECT_EQ(decisions(planned),
            "recompute %a for r after e\n"
            "swap %x for a.again after c\n"
            "move x.host below a\n");
  EXPECT_EQ(planned.plan->step(), 3000ns);
  const Planned swapped =
      plan(graph, table_device(0.1), {.budget = Bytes{600}, .may_recompute = false});
  EXPECT_EQ(decisions(swapped), "swap %a for r after d\nmove a.host below b\n");
  EXPECT_EQ(swapped.plan->step(), 7000ns);
}

// %a and %b are both read at the end, 300 bytes each. Both swapped: 600 ns back over the link, of
// which %e hides 100. Both computed again, %b from the new %a: 20 ns.
TEST(Plan, AChainIsComputedAgainWhereThatBeatsTwoSwaps) {
  const Graph graph = parse_valid(R"(graph step {
  param %x: f32[25]
  %a: f32[75] = my::f(%x) takes 10ns
  %b: f32[75] = my::f(%a) takes 10ns
  %c: f32[75] = my::f(%b) takes 100ns
  %d: f32[75] = my::f(%c) takes 100ns
  %e: f32[25] = my::f(%d) takes 100ns
  %r: f32[25] = my::g(%e, %b) takes 10ns
  %q: f32[25] = my::g(%r, %a) takes 10ns
  return %q
}
)")
                          .value();
  // %c, %d and %x at the least, and %x, %a, %b, %e, %r while %r is made.
  const Planned planned = plan(graph, table_device(1), {.budget = Bytes{900}});
  EXPECT_EQ(decisions(planned),
            "recompute %b for r after e\nrecompute %a for b.again, q after e\n");
  EXPECT_EQ(planned.plan->step(), 360ns);
  const Planned swapped =
      plan(graph, table_device(1), {.budget = Bytes{900}, .may_recompute = false});
  EXPECT_GT(swapped.plan->step(), planned.plan->step());
}

// %a comes back behind %d, for %e; at the same time %c goes out, to make room for %n. Each takes
// 300 ns alone, and hides. At a quarter of the speed while both are busy, each takes 1200 ns, and
// %e waits for 800 of them.
TEST(Plan, CopiesBothWaysAtOnceAreSlower) {
  const Graph graph = parse_valid(R"(graph step {
  param %x: f32[25]
  %a: f32[75] = my::f(%x) random takes 100ns
  %b: f32[25] = my::f(%a) takes 400ns
  %m: f32[175] = my::f(%b) takes 100ns
  %c: f32[75] = my::f(%m) random takes 100ns
  %d: f32[75] = my::f(%c) takes 400ns
  %e: f32[25] = my::g(%d, %a) takes 100ns
  %n: f32[200] = my::f(%e) takes 100ns
  %f: f32[25] = my::f(%n) takes 400ns
  %h: f32[25] = my::f(%f) takes 400ns
  %r: f32[25] = my::g(%h, %c) takes 100ns
  return %r
}
)")
                          .value();
  Device device = table_device(1);
  EXPECT_EQ(plan(graph, device, {.budget = Bytes{1100}}).plan->step(), 2200ns);
  device.link.to_host_both = device.link.to_device_both = Bandwidth{0.25e9};
  EXPECT_EQ(plan(graph, device, {.budget = Bytes{1100}}).plan->step(), 3000ns);
}

// To compute %a again takes its operation's workspace of 500 bytes again, beside %x, %d and %a
// itself: 1200 at the peak. So with 1100 it is swapped, though that costs more: %c waits until 310
// ns for it to be out, and it comes back after %d, from 510 to 810 ns.
TEST(Plan, WhatComputingAgainNeedsForAMomentCounts) {
  const Graph graph = parse_valid(R"(graph step {
  param %x: f32[25]
  %a: f32[75] = my::f(%x) takes 10ns workspace 500B
  %b: f32[75] = my::f(%a) takes 100ns
  %c: f32[150] = my::f(%b) takes 100ns
  %d: f32[75] = my::f(%c) takes 100ns
  %r: f32[25] = my::g(%d, %a) takes 10ns
  return %r
}
)")
                          .value();
  const Planned roomy = plan(graph, table_device(1), {.budget = Bytes{1200}});
  EXPECT_EQ(decisions(roomy), "recompute %a for r after d\n");
  const Planned tight = plan(graph, table_device(1), {.budget = Bytes{1100}});
  EXPECT_EQ(roomy.plan->step(), 330ns);
  EXPECT_EQ(decisions(tight), "swap %a for r after d\nmove a.host below b\n");
  EXPECT_EQ(tight.plan->step(), 820ns);
}

// Both readers of %a are at the end: it comes back once, for both.
TEST(Plan, ReadersNearEachOtherShareASwapIn) {
  const Graph graph = parse_valid(R"(graph step {
  param %x: f32[25]
  %a: f32[75] = my::f(%x) random takes 100ns
  %b: f32[75] = my::f(%a) takes 400ns
  %c: f32[75] = my::f(%b) takes 400ns
  %d: f32[25] = my::f(%c) takes 400ns
  %e: f32[25] = my::f(%d) takes 400ns
  %q: f32[25] = my::g(%e, %a) takes 100ns
  %r: f32[25] = my::g(%q, %a) takes 100ns
  return %r
}
)")
                          .value();
  const Planned planned = plan(graph, table_device(1), {.budget = Bytes{900}});
  EXPECT_EQ(decisions(planned), "swap %a for q, r after d\nmove a.host below b\n");
  EXPECT_EQ(planned.plan->step(), 1900ns);
}

// %n updates the running mean; the clone updates a copy of it, which is there from above %n to the
// clone, 4 bytes. The device's memory is so fast that the copy takes no more than a nanosecond.
TEST(Plan, BatchNormalisationRunsAgainOnSnapshots) {
  const Graph graph = parse_valid(R"(graph step {
  param %x: f32[75]
  param %mean: f32[1]
  %n: f32[75], %mean.1: f32[1] ~ %mean = my::norm(%x, %mean!) takes 10ns
  %b: f32[75] = my::f(%n) takes 100ns
  %c: f32[75] = my::f(%b) takes 100ns
  %d: f32[75] = my::f(%c) takes 100ns
  %r: f32[25] = my::g(%d, %n) takes 10ns
  return %r
}
)")
                          .value();
  const Planned planned = plan(graph, table_device(0.1), {.budget = Bytes{1004}});
  EXPECT_EQ(decisions(planned), "recompute %n for r after d\n");
  EXPECT_EQ(planned.plan->step(), 331ns);
  EXPECT_EQ(planned.plan->peak(), Bytes{1004});  // %x, %mean, %d, %n.again, %r
}

// At 'ga' there are %w, %g and %gw of 100 bytes each, and %a and %ga of 300: 900, all read or made
// right there. Split, %a is there at 'gw' and %ga at 'ga', and not both: 600, as at 'g' and at 'r'.
constexpr std::string_view kConvolution = R"(graph step {
  input %x: f32[25]
  param %w: f32[25]
  %a: f32[75] = my::f(%x) random takes 100ns
  %b: f32[25] = my::f(%a) takes 400ns
  %g: f32[25] = my::f(%b) takes 400ns
  %ga: f32[75], %gw: f32[25] = aten::convolution_backward(%g, %a, %w) {output_mask = [true, true, false]} takes 201ns
  %r: f32[25] = my::f(%ga) takes 100ns
  return %r, %gw
}
)";

TEST(Plan, ADerivativeOfAConvolutionAtThePeakIsSplit) {
  const Graph graph = parse_valid(kConvolution).value();
  const Planned planned = plan(graph, table_device(1), {.budget = Bytes{600}});
  EXPECT_EQ(planned.unconstrained, Bytes{900});
  EXPECT_EQ(planned.floor, Bytes{600});  // %w, %g, %a and %gw
  EXPECT_EQ(decisions(planned), "split ga\n");
  EXPECT_EQ(planned.plan->peak(), Bytes{600});
  EXPECT_EQ(planned.plan->step(), 1201ns);  // 101 for %gw, 100 for %ga
  const Planned whole = plan(graph, table_device(1), {.budget = Bytes{899}, .may_split = false});
  ASSERT_TRUE(whole.infeasible);
  EXPECT_EQ(whole.floor, Bytes{900});
  EXPECT_EQ(whole.infeasible->least, Bytes{900});
}

TEST(Plan, WhereEverythingFitsNothingIsSplit) {
  const Graph graph = parse_valid(kConvolution).value();
  EXPECT_EQ(decisions(plan(graph, table_device(1), {.budget = Bytes{900}})), "");
}

TEST(Plan, TheLeastBudgetIsThatOfSplitCalls) {
  const Graph graph = parse_valid(kConvolution).value();
  const Planned planned = plan(graph, table_device(1), {.budget = Bytes{599}});
  ASSERT_TRUE(planned.infeasible);
  EXPECT_EQ(planned.infeasible->least, Bytes{600});
}

// With %k, 200 bytes from the first line to the last, 'ga' holds 1100, or 800 when it is split. In
// 900 bytes %k can be out at 'ga', while %b and %g hide the way out; there is room for it again
// when 'ga' has run, and 'r' waits 200 ns for the way back.
TEST(Plan, ACallIsSplitWhereThatSavesTime) {
  std::string text(kConvolution);
  text.replace(text.find("  %a:"), 0, "  %k: f32[50] = my::f(%x) random takes 100ns\n");
  text.replace(text.find("my::f(%ga)"), 10, "my::g(%ga, %k)");
  const Graph graph = parse_valid(text).value();
  const Planned planned = plan(graph, table_device(1), {.budget = Bytes{900}});
  EXPECT_EQ(decisions(planned), "split ga\n");
  EXPECT_EQ(planned.plan->step(), 1301ns);
  const Planned whole = plan(graph, table_device(1), {.budget = Bytes{900}, .may_split = false});
  EXPECT_EQ(decisions(whole), "swap %k for r after ga\nmove k.host below b\n");
  EXPECT_EQ(whole.plan->step(), 1501ns);
}

// In 700 bytes the call is split and %k goes out: 'gw', 'ga' and 'r0' hold 600 each without it. It
// comes back when 'r0' has run, for 200 ns, and 'r' waits.
TEST(Plan, WhatIsSplitMayBeSwappedToo) {
  std::string text(kConvolution);
  text.replace(text.find("  %a:"), 0, "  %k: f32[50] = my::f(%x) random takes 100ns\n");
  text.replace(text.find("my::f(%ga)"), 10, "my::g(%r0, %k)");
  text.replace(text.find("  %r:"), 0, "  %r0: f32[25] = my::f(%ga) takes 100ns\n");
  const Graph graph = parse_valid(text).value();
  const Planned planned = plan(graph, table_device(1), {.budget = Bytes{700}});
  EXPECT_EQ(decisions(planned), "split ga\nswap %k for r after r0\nmove k.host below b\n");
  EXPECT_EQ(planned.plan->step(), 1601ns);
}

TEST(Plan, NothingFitsBelowWhatOneOperationNeeds) {
  const Graph graph = parse_valid(kStep).value();
  const Planned planned = plan(graph, table_device(1), {.budget = Bytes{500}});
  ASSERT_TRUE(planned.infeasible);
  EXPECT_EQ(planned.floor, Bytes{600});  // %b and %c
  EXPECT_EQ(planned.infeasible->least, Bytes{600});
}

// As above: %a or %x has to go out, 300 or 100 bytes.
TEST(Plan, AHostBudgetIsHonoured) {
  const Graph graph = parse_valid(kStep).value();
  const PlanOptions too_small{.budget = Bytes{600}, .host_budget = Bytes{99}};
  EXPECT_FALSE(plan(graph, table_device(1), too_small).plan);
  const Planned enough =
      plan(graph, table_device(1), {.budget = Bytes{600}, .host_budget = Bytes{100}});
  EXPECT_EQ(enough.plan->arena.host_size, Bytes{100});
}

}  // namespace
}  // namespace ebb
