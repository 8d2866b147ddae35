// A plan is made once for all processes that ask for the same, and one that is not what it says is
// not used.
#include "ebb/exec/plan_cache.h"

#include <cstdlib>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/base/file.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"

namespace ebb::exec {
namespace {

using testing::HasSubstr;

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

class PlanCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "ebb-cache-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    cache_ = Cache(name);
    device_.alignment = Bytes{4};
    options_.budget = Bytes{700};
    options_.evaluations = 300;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] PlannedOnce plan() const {
    return plan_once(cache_, graph_, device_, options_, seeds_).value();
  }
  [[nodiscard]] std::string path() const {
    return cache_.path_of(plan_file_name(graph_, device_, options_, seeds_));
  }

  Graph graph_ = parse_valid(kStep).value();
  Device device_ = find_device("cpu").value();
  PlanOptions options_;
  int seeds_ = 1;
  Cache cache_;
  std::string folder_;
};

TEST_F(PlanCacheTest, ThePlanThatIsFoundIsThePlanThatWasMade) {
  const PlannedOnce made = plan();
  const PlannedOnce found = plan();
  EXPECT_FALSE(made.was_known);
  ASSERT_TRUE(found.was_known);
  const Plan& a = *made.planned.plan;
  const Plan& b = *found.planned.plan;
  EXPECT_FALSE(a.file.decisions.empty());
  EXPECT_EQ(to_text(b.file), to_text(a.file));
  EXPECT_EQ(print(b.graph), print(a.graph));
  EXPECT_EQ(b.step(), a.step());
  EXPECT_EQ(b.peak(), a.peak());
  EXPECT_EQ(b.arena.storages, a.arena.storages);
  EXPECT_EQ(b.costs.compute, a.costs.compute);
  EXPECT_EQ(found.planned.budget, made.planned.budget);
  EXPECT_EQ(found.planned.floor, made.planned.floor);
  EXPECT_EQ(found.planned.unconstrained, made.planned.unconstrained);
  EXPECT_EQ(found.planned.unconstrained_step, made.planned.unconstrained_step);
  EXPECT_EQ(found.note, "");
}

TEST_F(PlanCacheTest, WhatIsNoPlanForThisIsNotedOnceAndReplaced) {
  EXPECT_FALSE(plan().was_known);
  const std::string right = read_file(path()).value();
  std::string slower = right;
  slower.replace(slower.find("\nstep ") + 6, 1, "9");
  std::string another = right;
  another.replace(another.find("graph ") + 6, 4, "0000");
  std::string never = right;
  never.replace(never.find("%a for"), 2, "%z");
  const std::string nothing =  // is decided, and so the peak is higher
      right.substr(0, right.find('\n', right.find("budget"))) + right.substr(right.find("\npeak"));
  for (const std::string& text :
       {std::string(), right.substr(0, right.size() / 2), slower, another, never, nothing}) {
    ASSERT_TRUE(write_file(path(), text));
    const PlannedOnce again = plan();
    EXPECT_FALSE(again.was_known) << text;
    EXPECT_THAT(again.note, HasSubstr("planned again"));
    EXPECT_EQ(again.note.find('\n'), std::string::npos);
    EXPECT_EQ(read_file(path()).value(), right);
    EXPECT_TRUE(plan().was_known);
  }
}

TEST_F(PlanCacheTest, EverythingThatAPlanDependsOnIsInTheName) {
  std::set<std::string> names;
  const auto add = [&] { names.insert(plan_file_name(graph_, device_, options_, seeds_)); };
  add();
  options_.budget = Bytes{701};
  add();
  options_.host_budget = Bytes{900};
  add();
  options_.may_swap = false;
  add();
  options_.may_recompute = false;
  add();
  options_.may_split = false;
  add();
  options_.evaluations.reset();
  add();
  seeds_ = 8;
  add();
  device_.link.to_host = {1e9};
  add();
  const Profile one =
      Profile::make("measured", {{"my::f(f32[25]) -> f32[75]", Duration(5), Bytes{}}}).value();
  options_.profile = &one;
  add();
  const Profile slower =
      Profile::make("measured", {{"my::f(f32[25]) -> f32[75]", Duration(6), Bytes{}}}).value();
  options_.profile = &slower;
  add();
  const Profile larger =
      Profile::make("measured", {{"my::f(f32[25]) -> f32[75]", Duration(6), Bytes{64}}}).value();
  options_.profile = &larger;
  add();
  graph_ = parse_valid("graph step {\n  input %x: f32[25]\n  return %x\n}\n").value();
  add();
  EXPECT_EQ(names.size(), 13U);
}

TEST_F(PlanCacheTest, ThatThereIsNoPlanIsNotKept) {
  options_.budget = Bytes{8};
  EXPECT_TRUE(plan().planned.infeasible);
  EXPECT_TRUE(plan().planned.infeasible);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(PlanCacheTest, WithoutACacheEveryProcessPlans) {
  cache_ = Cache();
  EXPECT_FALSE(plan().was_known);
  EXPECT_FALSE(plan().was_known);
}

}  // namespace
}  // namespace ebb::exec
