// Plans from several seeds at once.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/plan/restarts.h"
#include "tests/sanitized.h"

namespace ebb {
namespace {

// Each forward operation makes 4 MiB, which the backward phase reads in reverse.
Graph chain(int length) {
  std::string text = "graph step {\n  input %x: f32[1048576]\n";
  std::string before = "x";
  for (int i = 0; i < length; ++i) {
    text +=
        fmt::format("  %a{}: f32[1048576] = my::f(%{}) takes {}us\n", i, before, 40 + i * 7 % 50);
    before = fmt::format("a{}", i);
  }
  for (int i = length; i-- > 0;) {
    text += fmt::format("  %g{}: f32[1048576] = my::g(%{}, %a{}) takes 60us\n", i, before, i);
    before = fmt::format("g{}", i);
  }
  return parse_valid(text + "  return %" + before + "\n}\n").value();
}

class FastestPlanTest : public testing::Test {
 protected:
  FastestPlanTest() {
    options_.budget = Bytes{unconstrained_bytes(graph_, device_, options_).value().count / 4};
  }

  // Of how many evaluations it was said at most that there will be.
  [[nodiscard]] std::uint32_t most_told(int seeds) {
    std::uint32_t most = 0;
    options_.progress = [&](std::uint32_t /*done*/, std::uint32_t of, Duration /*best*/) {
      most = std::max(most, of);
    };
    (void)make_fastest_plan(graph_, device_, options_, seeds).value();
    options_.progress = nullptr;
    return most;
  }

  const Graph graph_ = chain(24);
  const Device device_ = find_device("h200").value();
  const std::uint32_t few_ = kSanitized ? 20 : 200;
  PlanOptions options_{.may_recompute = false, .evaluations = few_};
};

// The thread sanitizer looks on.
TEST_F(FastestPlanTest, WhatSearchesThatRunAtOnceHaveDoneIsToldByWhoeverAsked) {
  std::atomic<std::uint32_t> asked = 0;
  options_.is_out_of_time = [&] {
    ++asked;
    return false;
  };
  std::uint32_t told = 0;
  std::uint32_t most = 0;
  options_.progress = [&, caller = std::this_thread::get_id()](std::uint32_t done, std::uint32_t of,
                                                               Duration /*best*/) {
    ++told;
    most = std::max(most, of);
    EXPECT_LE(done, of);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  };
  const Planned planned = make_fastest_plan(graph_, device_, options_).value();
  ASSERT_TRUE(planned.plan);
  ASSERT_GT(planned.plan->step(), planned.unconstrained_step * 21 / 20) << "one seed was enough";
  EXPECT_GT(told, 0U);
  EXPECT_GT(asked, 0U);
  EXPECT_GE(most, 4 * few_) << "of several searches together";

  options_.progress = nullptr;
  const Planned again = make_fastest_plan(graph_, device_, options_).value();
  EXPECT_EQ(to_text(again.plan->file), to_text(planned.plan->file));
}

TEST_F(FastestPlanTest, WhatProgressThrowsEndsAllSearchesAndComesThrough) {
  struct Enough {};
  options_.evaluations = 100'000'000;  // nobody would wait for them
  options_.is_out_of_time = [caller = std::this_thread::get_id()] {
    return std::this_thread::get_id() == caller;  // the first search is short
  };
  options_.progress = [&](std::uint32_t /*done*/, std::uint32_t of, Duration /*best*/) {
    if (of > options_.evaluations) throw Enough();
  };
  EXPECT_THROW((void)make_fastest_plan(graph_, device_, options_).value(), Enough);
}

TEST_F(FastestPlanTest, OneSeedIsOnePlan) {
  options_.seed = 3;
  options_.budget = Bytes{options_.budget.count / 2};
  const Planned plan = make_plan(graph_, device_, options_).value();
  ASSERT_TRUE(plan.plan);
  ASSERT_GT(plan.plan->step(), plan.unconstrained_step * 3 / 2) << "others would be tried";
  const Planned one = make_fastest_plan(graph_, device_, options_, 1).value();
  ASSERT_TRUE(one.plan);
  EXPECT_EQ(to_text(one.plan->file), to_text(plan.plan->file));
  EXPECT_EQ(most_told(1), few_);
}

TEST_F(FastestPlanTest, WhatNoSeedCanFitIsTriedOnce) {
  options_.budget = Bytes{make_plan(graph_, device_, options_).value().floor.count - 1};
  EXPECT_LE(most_told(4), few_);
  EXPECT_TRUE(make_fastest_plan(graph_, device_, options_, 4).value().infeasible);
}

TEST(SeedsForStep, AreManyOnlyWhereTheyTakeNoTime) {
  EXPECT_EQ(seeds_for_step(false, {}), kUsualSeeds);
  EXPECT_EQ(seeds_for_step(false, {.evaluations = 0}), 1);
  EXPECT_EQ(seeds_for_step(true, {}), 1);
}

}  // namespace
}  // namespace ebb
