// On a link of a given speed, copies of a real step run under its kernels as far as was predicted.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/exec/measured_timeline.h"
#include "ebb/graph/parse.h"
#include "ebb/plan/simulate.h"
#include "ebb/torch/step.h"

namespace ebb::torch {
namespace {

constexpr int kWidth = 640;  // one matrix: 1.6 MB
constexpr int kLayers = 10;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

double busy(const Timeline& timeline, Lane lane) {
  return seconds(timeline.busy[static_cast<std::size_t>(lane)]);
}

double link_busy(const Timeline& timeline) {
  return busy(timeline, Lane::kToHost) + busy(timeline, Lane::kToDevice);
}

// How much of the time that copies take adds to the step: 1 where nothing overlaps.
double exposed(const Timeline& timeline) {
  return (seconds(timeline.total) - busy(timeline, Lane::kCompute)) / link_busy(timeline);
}

// Products forwards, each of which is needed again backwards, last first.
Graph chain() {
  std::string text = fmt::format("graph chain {{\n  input %h0: f32[{0},{0}]\n", kWidth);
  const auto product = [&](const std::string& result, const std::string& a, const std::string& b) {
    text += fmt::format("  %{}: f32[{}, {}] = aten::mm(%{}, %{})\n", result, kWidth, kWidth, a, b);
  };
  for (int i = 1; i <= kLayers; ++i) {
    product(fmt::format("h{}", i), fmt::format("h{}", i - 1), "h0");
  }
  std::string last = fmt::format("h{}", kLayers);
  for (int i = kLayers - 1; i >= 0; --i) {
    const std::string next = fmt::format("g{}", i);
    product(next, last, fmt::format("h{}", i));
    last = next;
  }
  return parse_valid(text + fmt::format("  return %{}\n}}\n", last)).value();
}

std::unique_ptr<Step> make_step(const std::string& budget, Bandwidth link) {
  StepOptions options;
  options.budget = budget;
  options.may_recompute = false;
  options.cache.clear();
  options.lanes.to_host = options.lanes.to_device = link;
  return Step::make(chain(), options).value();
}

Timeline run(Step& step) {
  EXPECT_TRUE(step.run({}, nullptr, /*is_timed=*/true));
  return exec::measured_timeline(step.graph(), step.program(), step.times().value());
}

// A link over which one matrix goes in the time of so many products.
Bandwidth link_of(double products) {
  const auto step = make_step("100%", {});
  Duration least = Duration::max();
  for (int i = 0; i < 5; ++i) least = std::min(least, run(*step).total);
  const double product = seconds(least) / (2 * kLayers);
  return {kWidth * kWidth * sizeof(float) / (products * product)};
}

// What the simulator predicts, with the link that was planned for, where kernels take as long as in
// `measured`: on a busy machine that is longer than alone.
Timeline predict(const Step& step, const Timeline& measured) {
  StepCosts costs = step.planned()->plan->costs;
  for (const Span& span : measured.spans) {
    if (span.lane == Lane::kCompute) costs.compute[span.node.index()] = span.end - span.start;
  }
  return simulate(step.graph(), costs);
}

struct Speed {
  double products;     // that a copy takes as long as
  double least, most;  // of what copies take, so much is exposed by the plan
};

class Overlap : public testing::TestWithParam<Speed> {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

// A sleep may be too long where others want the processor, and what is timed then is planned for
// wrongly: the best of some attempts counts.
TEST_P(Overlap, FollowsThePrediction) {
  constexpr int kAttempts = 5;
  constexpr int kRuns = 8;
  constexpr double kClose = 0.15;
  double best = 1;
  for (int attempt = 0; attempt < kAttempts && best > kClose; ++attempt) {
    const auto step = make_step("50%", link_of(GetParam().products));
    ASSERT_NE(step->planned(), nullptr);
    const double planned = exposed(step->planned()->plan->timeline);
    if (planned < GetParam().least || planned > GetParam().most) continue;
    for (int i = 0; i < kRuns && best > kClose; ++i) {
      const Timeline measured = run(*step);
      const Timeline predicted = predict(*step, measured);
      ASSERT_GT(link_busy(predicted), 0);
      EXPECT_GE(link_busy(measured), 0.99 * link_busy(predicted)) << "no link is faster than it is";
      const double off = std::max(std::abs(exposed(measured) - exposed(predicted)),
                                  std::abs(link_busy(measured) / link_busy(predicted) - 1));
      best = std::min(best, off);
    }
  }
  EXPECT_LE(best, kClose);
}

INSTANTIATE_TEST_SUITE_P(Links, Overlap,
                         testing::Values(Speed{.products = 0.5, .least = 0, .most = 0.3},
                                         Speed{.products = 4, .least = 0.5, .most = 1}));

}  // namespace
}  // namespace ebb::torch
