#include "ebb/plan/decide.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/device.h"

namespace ebb {
namespace {

// A graph in which some values are computed again wherever operations stand between two uses, and
// whatever that takes as well; and what was evaluated.
class Decided {
 public:
  Decided(std::string_view text, const std::vector<std::string>& again)
      : graph_(parse_valid(text).value()) {
    const StepCosts costs = estimate_costs(graph_, Device{}).value();
    const StepModel model =
        model_step(graph_, costs, {.alignment = Bytes{4}, .reuse_in_place = false}).value();
    const std::vector<Gap> gaps = find_gaps(model);
    Choices choices = choose_nothing(model, gaps);
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      const std::string name(graph_.name(model.values[gaps[i].value].tensor));
      if (std::find(again.begin(), again.end(), name) != again.end()) {
        choices[i] = Means::kRecompute;
      }
    }
    Evaluator evaluator(model, gaps, costs.link, {.budget = kNoLimit});
    const Evaluation& evaluation = evaluator.evaluate(choices);
    for (const PlannedLine& line : evaluation.lines) {
      planned_.push_back(std::string(graph_.name(model.operations[line.operation].node)) +
                         (line.is_clone ? ".again" : ""));
    }
    for (const Bytes held : evaluation.held) planned_bytes_.push_back(held.count);
    Rewriter rewriter(graph_);
    EXPECT_FALSE(apply_choices(model, evaluation, rewriter).has_value());
    rewriter.settle();
  }

  [[nodiscard]] const std::vector<std::string>& planned() const { return planned_; }
  [[nodiscard]] const std::vector<std::int64_t>& planned_bytes() const { return planned_bytes_; }

  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> names;
    for (const NodeId node : graph_.order()) {
      if (graph_.is_op(node)) names.emplace_back(graph_.name(node));
    }
    return names;
  }

  [[nodiscard]] std::vector<std::int64_t> bytes() const {
    const MemoryCurve curve = memory_curve(graph_, find_lives(graph_));
    std::vector<std::int64_t> held;
    for (std::size_t i = 0; i < graph_.order().size(); ++i) {
      if (graph_.is_op(graph_.order()[i])) held.push_back(curve.device[i].count);
    }
    return held;
  }

 private:
  Graph graph_;
  std::vector<std::string> planned_;
  std::vector<std::int64_t> planned_bytes_;
};

// Computing %s again takes two chains, of %b and of %d. The first needs 400 bytes besides what it
// makes, the second 40: it matters which of them runs while the other's result is there.
TEST(Decide, ChainsOfClonesForOneReaderStandAsTheyWereEvaluated) {
  const Decided decided(R"(graph step {
  input %x: f32[10]
  %a: f32[100] = my::f(%x)
  %b: f32[50] = my::f(%a)
  %c: f32[10] = my::f(%x)
  %d: f32[50] = my::f(%c)
  %s: f32[50] = my::g(%b, %d)
  %m: f32[10] = my::f(%s)
  %n: f32[10] = my::f(%m)
  %r: f32[10] = my::g(%n, %s)
  return %r
}
)",
                        {"s"});
  const std::vector<std::string> expected = {"a",       "b",       "c",       "d",       "s",
                                             "m",       "n",       "a.again", "b.again", "c.again",
                                             "d.again", "s.again", "r"};
  EXPECT_EQ(decided.planned(), expected);
  EXPECT_EQ(decided.lines(), expected);
  EXPECT_EQ(decided.bytes(), decided.planned_bytes());
}

// Of three, and chains within chains.
TEST(Decide, SoDoChainsWithinChains) {
  const Decided decided(R"(graph step {
  input %x: f32[10]
  %a: f32[100] = my::f(%x)
  %b: f32[20] = my::f(%x)
  %c: f32[30] = my::g(%a, %b)
  %d: f32[40] = my::f(%x)
  %e: f32[50] = my::f(%x)
  %f: f32[60] = my::g(%d, %e)
  %g: f32[70] = my::f(%x)
  %s: f32[50] = my::h(%c, %f, %g)
  %m: f32[10] = my::f(%s)
  %n: f32[10] = my::f(%m)
  %r: f32[10] = my::g(%n, %s)
  return %r
}
)",
                        {"s"});
  EXPECT_EQ(decided.lines(), decided.planned());
  EXPECT_EQ(decided.bytes(), decided.planned_bytes());
}

// %b and %c are computed again for %s, and %d, which %s needs as well, reads them first.
TEST(Decide, SoDoesAChainThatReadsWhatWasComputedAgainForAnother) {
  const Decided decided(R"(graph step {
  input %x: f32[10]
  %b: f32[50] = my::f(%x)
  %c: f32[90] = my::f(%x)
  %d: f32[50] = my::g(%c, %b)
  %s: f32[50] = my::h(%b, %c, %d)
  %m: f32[10] = my::f(%s)
  %n: f32[10] = my::f(%m)
  %r: f32[10] = my::g(%n, %s)
  return %r
}
)",
                        {"s"});
  EXPECT_EQ(decided.lines(), decided.planned());
  EXPECT_EQ(decided.bytes(), decided.planned_bytes());
}

}  // namespace
}  // namespace ebb
