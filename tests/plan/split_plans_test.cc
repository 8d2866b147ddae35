// What planning promises, for networks of convolutions, whose derivatives may be split.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/plan/plan.h"
#include "tests/meaning/random_graph.h"
#include "tests/plan/dice.h"
#include "tests/plan/random_case.h"
#include "tests/plan/random_step.h"

namespace ebb {
namespace {

// Layers one after the other, some of them elementwise; backward, a convolution's derivative needs
// what the layer read.
class ConvolutionalStep {
 public:
  explicit ConvolutionalStep(std::uint64_t seed) : dice_(seed) {}

  Graph make() {
    const std::size_t layers = 1 + dice_.below(8);
    std::string read = "x";
    std::size_t size = any_size();
    declared_ = fmt::format("  input %x: f32[{}]\n", size);
    for (std::size_t i = 1; i <= layers; ++i) {
      const std::size_t made = any_size();
      if (dice_.one_in(3)) {
        forward_ += fmt::format("  %a{}: f32[{}] = my::act(%{}){}\n", i, size, read, costs());
        backward_.insert(0, fmt::format("  %g{}: f32[{}] = my::act_backward(%g{}, %a{}){}\n", i - 1,
                                        size, i, i, costs()));
      } else {
        add_convolution(i, read, size, made);
        size = made;
      }
      read = fmt::format("a{}", i);
    }
    std::string text = fmt::format("graph step {{\n{}{}", declared_, forward_);
    text += fmt::format("  %g{}: f32[{}] = my::loss(%{}){}\n", layers, size, read, costs());
    return parse_valid(text + backward_ + "  return" + returned_ + " %g0\n}\n").value();
  }

 private:
  void add_convolution(std::size_t i, const std::string& read, std::size_t size, std::size_t made) {
    declared_ += fmt::format("  param %w{}: f32[{}]\n", i, 1 + dice_.below(100));
    forward_ += fmt::format("  %a{}: f32[{}] = my::conv(%{}, %w{}){}\n", i, made, read, i, costs());
    const bool has_bias = dice_.one_in(2);
    backward_.insert(
        0, fmt::format("  %g{}: f32[{}], %gw{}: f32[100]{} = aten::convolution_backward(%g{}, %{}, "
                       "%w{}) {{output_mask = [true, true, {}]}}{}\n",
                       i - 1, size, i, has_bias ? fmt::format(", %gb{}: f32[10]", i) : "", i, read,
                       i, has_bias, costs()));
    if (dice_.one_in(2)) returned_ += fmt::format(" %gw{},", i);
  }

  std::size_t any_size() { return 1 + dice_.below(dice_.one_in(3) ? 4000 : 500); }
  std::string costs() {
    std::string out;
    if (!dice_.one_in(8)) out += fmt::format(" takes {}ns", dice_.below(10'000));
    if (dice_.one_in(3)) out += fmt::format(" workspace {}B", dice_.below(2'000));
    return out;
  }

  Dice dice_;
  std::string declared_;
  std::string forward_;
  std::string backward_;
  std::string returned_;
};

PlanCase split_case(std::uint64_t seed) {
  Dice dice(seed);
  PlanCase made{.graph = ConvolutionalStep(seed).make(),
                .device = random_device(seed),
                .options = {.evaluations = 30, .seed = seed}};
  const Bytes all = unconstrained_bytes(made.graph, made.device, {}).value();
  made.options.budget = Bytes{all.count * static_cast<std::int64_t>(30 + dice.below(75)) / 100};
  if (dice.one_in(6)) {
    made.options.host_budget =
        Bytes{static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(all.count) + 1))};
  }
  if (dice.one_in(6)) made.options.may_swap = false;
  if (dice.one_in(6)) made.options.may_recompute = false;
  return made;
}

TEST(PlansWithSplits, AreRightOrNameABudgetThatWouldDo) {
  std::size_t split = 0;
  std::size_t alone = 0;  // nothing else is done
  const std::uint64_t cases = how_many(4'000);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    const PlanCase it = split_case(seed);
    ASSERT_EQ(problem_of(it), "") << "seed " << seed << "\n" << it.text();
    const auto planned = make_plan(it.graph, it.device, it.options);
    if (!planned->plan || !decides(planned->plan->file, "split")) continue;
    ++split;
    if (!decides(planned->plan->file, "swap") && !decides(planned->plan->file, "recompute")) {
      ++alone;
    }
  }
  EXPECT_GT(split, cases / 20);
  EXPECT_GT(alone, cases / 100);
}

TEST(PlansWithSplits, AreTheSameWhenTheyComeFromAFile) {
  std::size_t split = 0;
  const std::uint64_t cases = how_many(1'000);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    const PlanCase it = split_case(seed);
    const auto made = make_plan(it.graph, it.device, it.options);
    if (!made->plan) continue;
    const auto file = parse_plan(to_text(made->plan->file));
    const auto taken = plan_of_file(it.graph, it.device, it.options, *file);
    ASSERT_TRUE(taken) << "seed " << seed << ": " << taken.error().message;
    ASSERT_EQ(to_text(taken->plan->file), to_text(made->plan->file)) << "seed " << seed;
    ASSERT_EQ(print(taken->plan->graph), print(made->plan->graph)) << "seed " << seed;
    ASSERT_EQ(taken->plan->gaps.size(), made->plan->choices.size()) << "seed " << seed;
    ASSERT_EQ(taken->floor, made->floor) << "seed " << seed;
    if (decides(made->plan->file, "split")) ++split;
  }
  EXPECT_GT(split, cases / 20);
}

TEST(PlansWithSplits, AreNeverSlowerThanWithoutAndNeedNoMore) {
  std::size_t faster = 0;
  std::size_t smaller = 0;
  std::size_t possible = 0;
  const std::uint64_t cases = how_many(2'000);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    PlanCase it = split_case(seed);
    const auto with = make_plan(it.graph, it.device, it.options).value();
    it.options.may_split = false;
    const auto without = make_plan(it.graph, it.device, it.options).value();
    ASSERT_LE(with.floor, without.floor);
    if (without.plan) {
      ASSERT_FALSE(decides(without.plan->file, "split"));
      ASSERT_TRUE(with.plan) << "seed " << seed;
      ASSERT_LE(with.plan->step(), without.plan->step()) << "seed " << seed << "\n" << it.text();
      if (with.plan->step() < without.plan->step()) ++faster;
    } else if (with.plan) {
      ++possible;
    } else if (!with.infeasible->host_is_short && !without.infeasible->host_is_short) {
      ASSERT_LE(with.infeasible->least, without.infeasible->least) << "seed " << seed;
      if (with.infeasible->least < without.infeasible->least) ++smaller;
    }
  }
  EXPECT_GT(faster, cases / 100);
  EXPECT_GT(smaller, cases / 100);
  EXPECT_GT(possible, cases / 100);
}

}  // namespace
}  // namespace ebb
