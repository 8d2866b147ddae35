#include "ebb/plan/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/base/file.h"
#include "ebb/graph/parse.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/simulate.h"
#include "ebb/rewrite/lms_rewrite.h"

namespace ebb {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testing::HasSubstr;

// Every tensor has 1000 bytes, every operation takes 2 us, and every copy 1 us.
constexpr std::string_view kStep = R"(graph step {
  input %x: f32[250]
  %a: f32[250] = my::f(%x) takes 2us
  %b: f32[250] = my::f(%a) takes 2us
  %c: f32[250] = my::f(%b) takes 2us
  %d: f32[250] = my::f(%c) takes 2us
  %gradients/d: f32[250] = my::df(%d) takes 2us
  %gradients/c: f32[250] = my::df(%gradients/d, %c) takes 2us
  %gradients/b: f32[250] = my::df(%gradients/c, %b) takes 2us
  %gradients/a: f32[250] = my::df(%gradients/b, %a) takes 2us
  return %gradients/a
}
)";

Device slow_link() {
  Device device = find_device("h200").value();
  const Bandwidth speed{1e9};
  device.link = {
      .to_host = speed, .to_device = speed, .to_host_both = speed, .to_device_both = speed};
  return device;
}

Result<Tuning> tune_text(std::string_view text, const TuneOptions& options) {
  return tune(parse_valid(text).value(), slow_link(), options);
}

const TuneTrial& best_of(const Tuning& tuning) {
  return tuning.trials.at(tuning.best.value_or(tuning.trials.size()));
}

TEST(Tune, AStepThatFitsAsItIsIsLeftAlone) {
  // At the peak, 'gradients/d', all of a, b, c, d and its own result are there.
  const Tuning tuning = tune_text(kStep, {.budget = Bytes{5000}}).value();
  EXPECT_EQ(tuning.as_it_is.peak, Bytes{5000});
  EXPECT_EQ(tuning.as_it_is.peak_node, "gradients/d");
  EXPECT_EQ(tuning.as_it_is.step, 16us);
  ASSERT_EQ(tuning.trials.size(), 1);
  EXPECT_EQ(best_of(tuning).parameters.n_tensors, 0);
  EXPECT_EQ(best_of(tuning).step, 16us);
}

TEST(Tune, TheFirstTrialSwapsAllAsLateAsPossible) {
  // a, b and c are swapped, and 'gradients/a', 'b' and 'c' wait 1 us each: each has an operand, a
  // gradient and its result there.
  const Tuning tuning = tune_text(kStep, {.budget = Bytes{4999}}).value();
  const TuneTrial& first = tuning.trials.at(0);
  EXPECT_EQ(first.parameters.n_tensors, -1);
  EXPECT_EQ(first.parameters.lb, 1);
  EXPECT_EQ(first.tensors_swapped, 3);
  EXPECT_EQ(first.bytes_swapped, Bytes{3000});
  EXPECT_EQ(first.host_peak, Bytes{3000});
  EXPECT_EQ(first.peak, Bytes{3000});
  EXPECT_EQ(first.step, 19us);
}

TEST(Tune, FewerTensorsAreFasterWhereTheyAreEnough) {
  // Without b, or a, at home there is room for c, and nobody waits for it.
  const Tuning tuning = tune_text(kStep, {.budget = Bytes{3000}}).value();
  EXPECT_EQ(best_of(tuning).parameters.n_tensors, 2);
  EXPECT_EQ(best_of(tuning).parameters.lb, 1);
  EXPECT_EQ(best_of(tuning).peak, Bytes{3000});
  EXPECT_EQ(best_of(tuning).step, 18us);
}

TEST(Tune, EarlierIsFasterWhereThereIsRoom) {
  // With 4000 a and b come back an operation earlier, and nobody waits.
  const Tuning tuning = tune_text(kStep, {.budget = Bytes{4000}}).value();
  EXPECT_EQ(best_of(tuning).parameters.lb, 2);
  EXPECT_EQ(best_of(tuning).step, 16us);
  // Of those that take 16 us it is the one that copies least.
  EXPECT_EQ(best_of(tuning).tensors_swapped, 1);
}

TEST(Tune, BranchesAreTriedWithoutABackwardPhase) {
  // %a waits for %d over two others.
  const Tuning tuning = tune_text(R"(graph inference {
  input %x: f32[1]
  %a: f32[250] = my::f(%x) takes 2us
  %b: f32[250] = my::f(%a) takes 2us
  %c: f32[250] = my::f(%b) takes 2us
  %e: f32[1] = my::f(%c) takes 2us
  %d: f32[1] = my::f(%e, %a) takes 2us
  return %d
}
)",
                                  {.budget = Bytes{2100}})
                            .value();
  EXPECT_FALSE(tuning.trials.at(0).fits);
  EXPECT_EQ(tuning.trials.at(0).tensors_swapped, 0);
  EXPECT_TRUE(best_of(tuning).parameters.swap_branches);
  EXPECT_LE(best_of(tuning).peak, Bytes{2100});
}

TEST(Tune, WhereNothingFitsTheLeastAndTheRemedyAreNamed) {
  const Graph graph = parse_valid(kStep).value();
  const Tuning tuning = tune(graph, slow_link(), {.budget = Bytes{2999}}).value();
  EXPECT_FALSE(tuning.best);
  EXPECT_EQ(tuning.trials.at(tuning.least).peak, Bytes{3000});
  EXPECT_THAT(to_text(tuning), HasSubstr("\nNothing that was tried fits.\n"));
  const Error error = explain_misfit(graph, tuning);
  EXPECT_EQ(error.kind, ErrorKind::kInfeasible);
  EXPECT_EQ(error.message,
            "nothing that was tried fits in 2.9 KiB: the least peak is 2.9 KiB (3000B), at "
            "'gradients/c', with --n-tensors -1 --lb 1; 'gradients/c' alone needs 2.9 KiB: take a "
            "smaller batch, or more memory");
}

TEST(Tune, WhereAPlanMightFitItIsNamed) {
  // What is returned stays, and so more is there than any operation needs.
  std::string text(kStep);
  text.replace(text.find("return"), 6, "return %a, %b, %c,");
  const Graph graph = parse_valid(text).value();
  const Tuning tuning = tune(graph, slow_link(), {.budget = Bytes{3500}}).value();
  EXPECT_FALSE(tuning.best);
  EXPECT_THAT(explain_misfit(graph, tuning).message,
              HasSubstr("try 'ebb plan', which computes tensors again as well, or take a smaller "
                        "batch"));
}

TEST(Tune, OtherParametersHoldForAllTrials) {
  TuneOptions options{.budget = Bytes{4000}};
  options.fixed.fuse_swapins = true;
  options.fixed.starting_op_names = {"b"};
  options.fixed.ub = 3;
  options.fixed.n_tensors = 1;  // is tuned
  const Tuning tuning = tune_text(kStep, options).value();
  EXPECT_EQ(tuning.trials.at(0).tensors_swapped, 2);  // the walk begins at b
  for (const TuneTrial& trial : tuning.trials) {
    EXPECT_TRUE(trial.parameters.fuse_swapins);
    EXPECT_LE(trial.parameters.lb, 3);
  }
}

TEST(Tune, WrongParametersAreWrongUsageAlsoWhereNoneAreNeeded) {
  for (const Bytes budget : {Bytes{4000}, Bytes{5000}}) {
    TuneOptions options{.budget = budget};
    options.fixed.optimizer_scopes = {"adam"};
    const auto tuning = tune_text(kStep, options);
    ASSERT_FALSE(tuning);
    EXPECT_EQ(tuning.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(tuning.error().message, HasSubstr("'adam'"));
  }
}

TEST(Tune, UnknownSizesAreRefusedThoughAllTimesAreKnown) {
  std::string text(kStep);
  text.replace(text.find("%b: f32[250]"), 12, "%b: f32[?]");
  const auto tuning = tune_text(text, {.budget = Bytes{4000}});
  ASSERT_FALSE(tuning);
  EXPECT_EQ(tuning.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(tuning.error().message,
            "how large %b is, is not known (f32[?]), and so what the step uses: fix the batch size "
            "and all other dimensions");
}

TEST(Tune, NoMoreTrialsAreMadeThanAsked) {
  for (const std::size_t most : {0U, 1U, 3U, 6U}) {
    std::vector<std::size_t> numbers;
    TuneOptions options{.budget = Bytes{3000}, .most_trials = most};
    options.before_trial = [&](std::size_t number) { numbers.push_back(number); };
    const Tuning tuning = tune_text(kStep, options).value();
    EXPECT_EQ(tuning.trials.size(), std::max<std::size_t>(1, most));
    EXPECT_EQ(numbers.size(), tuning.trials.size());
    EXPECT_EQ(numbers.back(), tuning.trials.size());
  }
}

TEST(Tune, AnEmptyGraphFits) {
  const Tuning tuning = tune_text("graph g {\n  return\n}\n", {.budget = Bytes{1}}).value();
  EXPECT_TRUE(tuning.best);
  EXPECT_THAT(to_text(tuning), HasSubstr("the step as it is: 0 B, 0 ns\n"));
  EXPECT_THAT(to_json(tuning), HasSubstr("\"peak_node\": null"));
}

struct Predicted {
  Bytes peak;
  Duration step{};
};

Predicted predict(const Graph& graph, const Device& device, const LmsOptions& parameters) {
  const LmsRewritten done = rewrite_by_lms(graph, parameters).value();
  const StepCosts costs = estimate_costs(done.graph, device).value();
  const Timeline timeline = simulate(done.graph, costs);
  EXPECT_LE(timeline.device_peak, done.after.bytes);
  return {done.after.bytes, timeline.total};
}

class TuneExample : public testing::TestWithParam<const char*> {};

TEST_P(TuneExample, NothingThatFitsIsMuchFasterThanWhatIsRecommended) {
  const std::string path = std::string(EBB_SOURCE_DIR) + "/examples/" + GetParam() + ".ebb";
  const Graph graph = parse_valid(read_file(path).value()).value();
  const Device device = find_device("h200").value();
  const Bytes peak = find_peak(graph).bytes;
  const Bytes budget{peak.count / 10 * 9};
  const Tuning tuning = tune(graph, device, {.budget = budget}).value();
  ASSERT_TRUE(tuning.best);
  EXPECT_LE(tuning.trials.size(), 40);
  const Predicted best = predict(graph, device, best_of(tuning).parameters);
  EXPECT_EQ(best.peak, best_of(tuning).peak);
  EXPECT_EQ(best.step, best_of(tuning).step);
  LmsOptions parameters;
  for (const char* strategy : {"chain_rule", "direct_order"}) {
    parameters.ctrld_strategy = strategy;
    for (parameters.lb = 1; parameters.lb <= 16; parameters.lb *= 2) {
      for (parameters.n_tensors = 1; parameters.n_tensors <= 40; ++parameters.n_tensors) {
        const Predicted other = predict(graph, device, parameters);
        if (other.peak > budget) continue;
        EXPECT_GT(other.step + other.step / 20, best.step)
            << strategy << " lb=" << parameters.lb << " n_tensors=" << parameters.n_tensors;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, TuneExample, testing::Values("resnet", "transformer", "unet"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ebb
