#include "ebb/plan/simulate.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/order/liveness.h"

namespace ebb {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

// A byte a nanosecond each way; operations take what the text says, and 10 ns to enqueue.
StepCosts costs_of(const Graph& graph) {
  const Bandwidth speed{1e9};
  StepCosts costs;
  for (const NodeId node : graph.nodes()) {
    costs.compute.push_back(graph.takes(node).value_or(Duration::zero()));
    costs.workspace.push_back(graph.workspace(node));
    costs.source.push_back(CostSource::kText);
  }
  costs.link = {
      .to_host = speed, .to_device = speed, .to_host_both = speed, .to_device_both = speed};
  costs.launch = 10ns;
  return costs;
}

// %a goes out behind %b, 300 ns, and comes back behind %d.
constexpr std::string_view kSwapped = R"(graph step {
  input %x: f32[25]
  %a: f32[75] = my::f(%x) takes 100ns
  %b: f32[75] = my::f(%a) takes 400ns
  %a.host: f32[75] @host = ebb::swap_out(%a)
  %c: f32[75] = my::f(%b) takes 400ns
  %a.back: f32[75] = ebb::swap_in(%a.host) after c
  %d: f32[25] = my::f(%c) takes 400ns
  %r: f32[25] = my::g(%d, %a.back) takes 100ns
  return %r
}
)";

TEST(Simulate, CopiesRunBehindOperations) {
  const Graph graph = parse_valid(kSwapped).value();
  const Timeline timeline = simulate(graph, costs_of(graph));
  EXPECT_EQ(timeline.total, 1400ns);
  EXPECT_TRUE(timeline.stalls.empty());
  EXPECT_EQ(timeline.busy[static_cast<std::size_t>(Lane::kToHost)], 300ns);
  EXPECT_EQ(timeline.busy[static_cast<std::size_t>(Lane::kToDevice)], 300ns);
  EXPECT_EQ(timeline.host_peak, Bytes{300});
  EXPECT_LE(timeline.device_peak, memory_curve(graph, find_lives(graph)).peak);
}

// The host has enqueued %b, %c and %d by 40 ns. %a goes out from 100 to 400 ns and is held until
// then, beside %b and %c; only %r waits, for %a.back, which waits for %c in the stream: 900 ns.
TEST(Simulate, WhoEnqueuesRunsAheadAndHoldsMore) {
  const Graph graph = parse_valid(kSwapped).value();
  const Timeline timeline = simulate(graph, costs_of(graph), Clock::kEnqueued);
  EXPECT_EQ(timeline.total, 1400ns);
  EXPECT_EQ(timeline.device_peak, Bytes{900});  // %a, %b and %c, at 20 ns
  EXPECT_GT(timeline.device_peak, simulate(graph, costs_of(graph)).device_peak);
}

// A control edge from the swap-out makes the executor wait, and memory is really freed.
TEST(Simulate, WhoWaitsForASwapOutIsEnqueuedWhenItHasEnded) {
  std::string text(kSwapped);
  text.replace(text.find("my::f(%b) takes"), 15, "my::f(%b) after a.host takes");
  const Graph graph = parse_valid(text).value();
  const Timeline timeline = simulate(graph, costs_of(graph), Clock::kEnqueued);
  EXPECT_EQ(timeline.device_peak, Bytes{700});  // %x, %a and %b
  EXPECT_EQ(timeline.total, 1400ns);
}

// Without %b between there is nothing for the copy to hide behind: %c may take the bytes of %a when
// they are out, at 400 ns.
TEST(Simulate, WhoGetsTheBytesOfASwapOutWaitsForIt) {
  const Graph graph = parse_valid(R"(graph step {
  input %x: f32[25]
  %a: f32[75] = my::f(%x) takes 100ns
  %a.host: f32[75] @host = ebb::swap_out(%a)
  %c: f32[75] = my::f(%x) takes 400ns
  %a.back: f32[75] = ebb::swap_in(%a.host) after c
  %r: f32[25] = my::g(%c, %a.back) takes 100ns
  return %r
}
)")
                          .value();
  const Timeline timeline = simulate(graph, costs_of(graph));
  ASSERT_EQ(timeline.stalls.size(), 2U);
  EXPECT_EQ(timeline.stalls[0].cause, StallCause::kRelease);
  EXPECT_EQ(timeline.stalls[0].end, 400ns);
  EXPECT_EQ(timeline.stalls[1].cause, StallCause::kArrival);
  EXPECT_EQ(timeline.stalls[1].start, 800ns);
  EXPECT_EQ(timeline.stalls[1].end, 1100ns);
  EXPECT_EQ(timeline.total, 1200ns);
}

}  // namespace
}  // namespace ebb
