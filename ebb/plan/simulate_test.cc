#include "ebb/plan/simulate.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/step_model.h"

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

// ShapeN is over when %c is enqueued, so %a is not there with it.
TEST(Simulate, WhatTheHostDoesInNoTimeHoldsNothingForTheNextOne) {
  const Graph graph = parse_valid(R"(graph step {
  input %x: f32[25]
  %a: f32[75] = my::f(%x) takes 100ns
  %b: f32[25] = my::f(%a) takes 100ns
  %shape: i32[1] @host = my::shape(%a)
  %c: f32[75] = my::f(%b) takes 100ns
  %r: f32[25] = my::g(%c, %shape) takes 100ns
  return %r
}
)")
                          .value();
  const Timeline timeline = simulate(graph, costs_of(graph), Clock::kEnqueued);
  EXPECT_EQ(timeline.device_peak, Bytes{400});  // %a and %b, then %b and %c
}

// Asked for when %c is done, at 900 ns, %a.back waits for %d, which is in the stream by then: 1300.
TEST(Simulate, ByARendezvousACopyBackWaitsForAllThatWasEnqueued) {
  const Graph graph = parse_valid(kSwapped).value();
  const Timeline timeline = simulate(graph, costs_of(graph), Clock::kRendezvous);
  EXPECT_EQ(timeline.total, 1700ns);
  EXPECT_EQ(timeline.device_peak, Bytes{900});
}

// %c, 1000 bytes, goes out from 600 to 1600 ns, and what asks for %a.back comes behind it.
TEST(Simulate, ByARendezvousACopyBackIsAskedForBehindTheCopiesOut) {
  const Graph graph = parse_valid(R"(graph step {
  input %x: f32[25]
  %a: f32[75] = my::f(%x) takes 100ns
  %a.host: f32[75] @host = ebb::swap_out(%a)
  %b: f32[75] = my::f(%a) takes 400ns
  %c: f32[250] = my::f(%b) takes 100ns
  %c.host: f32[250] @host = ebb::swap_out(%c)
  %a.back: f32[75] = ebb::swap_in(%a.host) after c
  %d: f32[75] = my::f(%b) takes 100ns
  %r: f32[25] = my::g(%d, %a.back) takes 100ns
  return %r
}
)")
                          .value();
  EXPECT_EQ(simulate(graph, costs_of(graph), Clock::kEnqueued).total, 1600ns);  // of %c.host
  EXPECT_EQ(simulate(graph, costs_of(graph), Clock::kRendezvous).total, 2000ns);
}

// %d may go on when %c is out, at 1200 ns. By a rendezvous %a.back starts when the device has run
// dry, at 900, and %d waits until it is there, at 1500.
TEST(Simulate, ByARendezvousWhoWaitsForACopyOutWaitsForThoseBack) {
  const Graph graph = parse_valid(R"(graph step {
  input %x: f32[25]
  %a: f32[150] = my::f(%x) takes 100ns
  %a.host: f32[150] @host = ebb::swap_out(%a)
  %b: f32[75] = my::f(%x) after a.host takes 100ns
  %a.back: f32[150] = ebb::swap_in(%a.host) after b
  %c: f32[75] = my::f(%b) takes 100ns
  %c.host: f32[75] @host = ebb::swap_out(%c)
  %d: f32[75] = my::f(%c) after c.host takes 100ns
  %r: f32[25] = my::g(%d, %a.back) takes 100ns
  return %r
}
)")
                          .value();
  EXPECT_EQ(simulate(graph, costs_of(graph), Clock::kEnqueued).total, 1500ns);
  EXPECT_EQ(simulate(graph, costs_of(graph), Clock::kRendezvous).total, 1700ns);
}

// %c is copied out when %a is back, and once.
TEST(Simulate, ByARendezvousACopyOutThatWaitsForOneBackIsMadeOnce) {
  const Graph graph = parse_valid(R"(graph step {
  input %x: f32[25]
  %a: f32[75] = my::f(%x) takes 100ns
  %a.host: f32[75] @host = ebb::swap_out(%a)
  %c: f32[75] = my::f(%x) takes 100ns
  %a.back: f32[75] = ebb::swap_in(%a.host) after c
  %c.host: f32[75] @host = ebb::swap_out(%c) after a.back
  %r: f32[25] = my::g(%c, %a.back) takes 100ns
  return %r
}
)")
                          .value();
  const Timeline timeline = simulate(graph, costs_of(graph), Clock::kRendezvous);
  EXPECT_EQ(timeline.busy[static_cast<std::size_t>(Lane::kToHost)], 600ns);
  EXPECT_EQ(timeline.total, 1000ns);  // %a out from 100, back from 400, %c out from 700
}

// Where the host takes longer than the device, the copy is asked for before %d is enqueued.
TEST(Simulate, ASlowHostDoesNotRunAheadOfWhatComesBack) {
  const Graph graph = parse_valid(kSwapped).value();
  StepCosts costs = costs_of(graph);
  costs.launch = 1000ns;
  const Timeline timeline = simulate(graph, costs, Clock::kRendezvous);
  EXPECT_EQ(timeline.stalled[static_cast<std::size_t>(StallCause::kArrival)], 0ns);
  EXPECT_EQ(timeline.total, 4100ns);  // %r is enqueued as the fifth operation
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

// %x, 400 bytes, is fed from the host; 'a' and 'gw' of the GPU read it. %n stays on the host.
constexpr std::string_view kFed = R"(graph step {
  input %x: f32[100] @host @"/device:CPU:0"
  %a: f32[25] = tf::F(%x) @"/device:GPU:0" takes 100ns
  %n: i32[10] @host = tf::Shape(%a) @"/device:GPU:0"
  %b: f32[25] = tf::F(%a, %n) @"/device:GPU:0" takes 100ns
  %gw: f32[1] = tf::G(%x, %b) @"/device:GPU:0" takes 100ns
  %c: f32[25] = tf::F(%gw) @"/device:GPU:0" takes 100ns
  return %c
}
)";

TEST(Simulate, WhatTheDeviceReadsFromTheHostCountsAsInThePlanner) {
  const Graph graph = parse_valid(kFed).value();
  const StepCosts costs = costs_of(graph);
  const Timeline timeline = simulate(graph, costs, Clock::kEnqueued);
  EXPECT_EQ(timeline.device_peak, Bytes{600});  // %x, %a and %b
  EXPECT_EQ(timeline.host_peak, Bytes{});       // nothing was swapped out
  const StepModel model = model_step(graph, costs, {.alignment = Bytes{1}}).value();
  const auto& x = model.values.back();
  EXPECT_EQ(x.size, Bytes{400});
  EXPECT_EQ(x.use_count, 2U);
  EXPECT_FALSE(x.can_swap || x.can_recompute);
}

}  // namespace
}  // namespace ebb
