#include "ebb/plan/validate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

Device table_device() {
  const Bandwidth speed{1e9};  // a byte a nanosecond
  Device device;
  device.name = "table";
  device.memory_bandwidth = {1e15};
  device.launch = Duration{0};
  device.efficiency.memory = 1;
  device.alignment = Bytes{64};
  device.link = {
      .to_host = speed, .to_device = speed, .to_host_both = speed, .to_device_both = speed};
  return device;
}

// %a is needed again at the end, twice. %c can lie where %b lay.
constexpr std::string_view kStep = R"(graph step {
  param %w: f32[16]
  input %x: f32[16]
  %a: f32[32] = my::f(%x, %w) takes 100ns
  %b: f32[32] = my::f(%a) takes 400ns
  %c: f32[32] = aten::relu(%b) takes 400ns
  %d: f32[16] = my::f(%c) takes 400ns workspace 64B
  %e: f32[16] = my::g(%d, %a) takes 400ns
  %r: f32[16] = my::g(%e, %a) takes 100ns
  %w.1: f32[16] ~ %w = my::add_(%w!, %r) takes 10ns
  return %w.1
}
)";

// The workspace of 'd' and then %a.back lie where %a lay.
constexpr std::string_view kPlan = R"(device table
budget 384B
host_budget 128B
swap %a for e, r after c
move a.host below b
move a.back below d
peak 384B
host 128B
step 1810ns
unconstrained 1810ns
at %w 0B
at %x 64B
at %a 128B
at %b 256B
at %c 256B
at %d 64B
at %e 256B
at %r 64B
at %a.host 0B
at %a.back 128B
workspace d 128B
end
)";

class ValidatePlan : public ::testing::Test {
 protected:
  // Instead of lines of the plan, others; none: the line is dropped.
  using Changes = std::vector<std::pair<std::string, std::string>>;

  std::string problem(const Changes& changes = {}) {
    std::string text = fmt::format("ebb plan 1\ngraph {:016x}\n{}", fingerprint(graph_), kPlan);
    for (const auto& [from, to] : changes) {
      const std::size_t at = text.find(from + "\n");
      EXPECT_NE(at, std::string::npos) << from;
      if (at != std::string::npos) text.replace(at, from.size() + 1, to.empty() ? "" : to + "\n");
    }
    return problem_of(parse_plan(text).value());
  }

  [[nodiscard]] std::string problem_of(const PlanFile& plan) const {
    const Status status = validate_plan(graph_, plan, device_);
    if (status) return "none";
    EXPECT_EQ(status.error().kind, ErrorKind::kRefused);
    return status.error().message;
  }

  Graph graph_ = parse_valid(kStep).value();
  Device device_ = table_device();
};

TEST_F(ValidatePlan, AGoodPlanPasses) { EXPECT_EQ(problem(), "none"); }

TEST_F(ValidatePlan, ARecomputationPasses) {
  const std::string text = fmt::format(R"(ebb plan 1
graph {:016x}
device table
budget 448B
recompute %a for e, r after d
peak 448B
host 0B
step 1910ns
unconstrained 1810ns
at %w 0B
at %x 64B
at %a 128B
at %b 256B
at %c 256B
at %d 128B
at %a.again 256B
at %e 192B
at %r 128B
workspace d 384B
end
)",
                                       fingerprint(graph_));
  EXPECT_EQ(problem_of(parse_plan(text).value()), "none");
}

TEST_F(ValidatePlan, WhoIsThereTogetherLiesApart) {
  EXPECT_EQ(problem({{"at %d 64B", "at %d 320B"}}),
            "the plan is wrong: %c at 256..384 and %d at 320..384 overlap at '%d: f32[16] = "
            "my::f(%c) takes 400ns workspace 64B'");
  EXPECT_EQ(problem({{"at %x 64B", "at %x 0B"}}),
            "the plan is wrong: %w at 0..64 and %x at 0..64 overlap at 'param %w: f32[16]'");
  EXPECT_EQ(problem({{"at %r 64B", "at %r 0B"}}),
            "the plan is wrong: %w at 0..64 and %r at 0..64 overlap at '%r: f32[16] = my::g(%e, "
            "%a.back) takes 100ns'");
}

TEST_F(ValidatePlan, AWorkspaceLiesApartFromTensors) {
  EXPECT_EQ(problem({{"workspace d 128B", "workspace d 256B"}}),
            "the plan is wrong: %c at 256..384 and the workspace of 'd' at 256..320 overlap at "
            "'%d: f32[16] = my::f(%c) takes 400ns workspace 64B'");
}

TEST_F(ValidatePlan, AResultInTheBytesOfAnOperandIsForOperatorsThatWorkInPlace) {
  graph_ =
      parse_valid(std::string(kStep).replace(kStep.find("aten::relu"), 10, "my::other_")).value();
  EXPECT_EQ(problem(),
            "the plan is wrong: %b at 256..384 and %c at 256..384 overlap at '%c: f32[32] = "
            "my::other_(%b) takes 400ns'");
}

// Tensors of the graph at these bytes, and nothing else.
PlanFile plan_with(const Graph& graph, const std::vector<std::string>& decisions,
                   const std::vector<std::pair<std::string, int>>& offsets, Bytes end) {
  PlanFile plan;
  plan.fingerprint = fingerprint(graph);
  plan.device = "table";
  plan.budget = plan.peak = end;
  plan.host = Bytes{0};
  plan.step = Duration{1'000'000};
  plan.unconstrained = Duration{0};
  for (const std::string& decision : decisions) plan.decisions.push_back({decision, 0});
  for (const auto& [name, at] : offsets) plan.tensors.push_back({name, Bytes{at}, 0});
  return plan;
}

TEST_F(ValidatePlan, NothingIsWrittenOverPartsOfAnOperandOrOverOneThatLivesOn) {
  graph_ = parse_valid(R"(graph g {
  input %x: f32[32]
  %h: f32[16] ~ %x = aten::slice(%x)
  %b: f32[16] = aten::relu(%h) takes 0ns
  %c: f32[16] = aten::relu(%b) takes 0ns
  %d: f32[16] = my::g(%b, %c) takes 0ns
  return %d
}
)")
               .value();
  const auto problem_at = [&](int b, int c) {
    return problem_of(
        plan_with(graph_, {}, {{"x", 0}, {"b", b}, {"c", c}, {"d", 256}}, Bytes{320}));
  };
  EXPECT_EQ(problem_at(128, 192), "none");
  EXPECT_EQ(problem_at(128, 0), "none") << "%x is not needed by then";
  EXPECT_EQ(problem_at(0, 192),
            "the plan is wrong: %x at 0..128 and %b at 0..64 overlap at '%b: f32[16] = "
            "aten::relu(%h) takes 0ns'");
  EXPECT_EQ(problem_at(128, 128),
            "the plan is wrong: %b at 128..192 and %c at 128..192 overlap at '%c: f32[16] = "
            "aten::relu(%b) takes 0ns'");
}

TEST_F(ValidatePlan, SomeOperatorsWriteOverTheirFirstOperandOnly) {
  graph_ = parse_valid(R"(graph g {
  input %x: f32[16]
  input %y: f32[16]
  %a: f32[16] = aten::gelu_backward(%x, %y) takes 0ns
  %s: f32[16] = aten::gelu_backward(%a, %a) takes 0ns
  return %s
}
)")
               .value();
  const auto problem_at = [&](int a, int s) {
    return problem_of(plan_with(graph_, {}, {{"x", 0}, {"y", 64}, {"a", a}, {"s", s}}, Bytes{128}));
  };
  EXPECT_EQ(problem_at(0, 64), "none");
  EXPECT_EQ(problem_at(64, 0),
            "the plan is wrong: %y at 64..128 and %a at 64..128 overlap at '%a: f32[16] = "
            "aten::gelu_backward(%x, %y) takes 0ns'");
  EXPECT_EQ(problem_at(0, 0),
            "the plan is wrong: %a at 0..64 and %s at 0..64 overlap at '%s: f32[16] = "
            "aten::gelu_backward(%a, %a) takes 0ns'");
}

TEST_F(ValidatePlan, OperatorsOnListsWriteEachResultOverItsOwnOperand) {
  graph_ = parse_valid(R"(graph g {
  input %x: f32[16]
  input %y: f32[16]
  %a: f32[16], %b: f32[16] = aten::_foreach_neg([%x, %y]) takes 0ns
  return %a, %b
}
)")
               .value();
  const auto problem_at = [&](int a, int b) {
    return problem_of(plan_with(graph_, {}, {{"x", 0}, {"y", 64}, {"a", a}, {"b", b}}, Bytes{128}));
  };
  EXPECT_EQ(problem_at(0, 64), "none");
  EXPECT_EQ(problem_at(64, 0),
            "the plan is wrong: %x at 0..64 and %b at 0..64 overlap at '%a: f32[16], %b: f32[16] "
            "= aten::_foreach_neg([%x, %y]) takes 0ns'");
}

TEST_F(ValidatePlan, AnotherShapeOrOtherStridesAreOtherPlaces) {
  for (const std::string type : {"f32[16,2]", "f32[2,16] strides [1,2]", "f64[2,8]"}) {
    graph_ = parse_valid(fmt::format(R"(graph g {{
  input %x: f32[2,16]
  %a: {} = aten::relu(%x) takes 0ns
  return %a
}}
)",
                                     type))
                 .value();
    EXPECT_EQ(problem_of(plan_with(graph_, {}, {{"x", 0}, {"a", 128}}, Bytes{256})), "none");
    EXPECT_NE(problem_of(plan_with(graph_, {}, {{"x", 0}, {"a", 0}}, Bytes{128})), "none") << type;
  }
}

TEST_F(ValidatePlan, WhatIsCopiedOutIsNotWrittenOver) {
  graph_ = parse_valid(R"(graph g {
  input %x: f32[16]
  %a: f32[16] = my::f(%x) takes 0ns
  %b: f32[16] = aten::relu(%a) takes 0ns
  %c: f32[16] = my::g(%b) takes 0ns
  %d: f32[16] = my::g(%c, %a) takes 0ns
  return %d
}
)")
               .value();
  const auto problem_at = [&](int b) {
    PlanFile plan = plan_with(
        graph_, {"swap %a for d after b"},
        {{"x", 0}, {"a", 64}, {"b", b}, {"c", 128}, {"d", 192}, {"a.host", 0}, {"a.back", 64}},
        Bytes{256});
    plan.host = Bytes{64};
    return problem_of(plan);
  };
  EXPECT_EQ(problem_at(0), "none");
  EXPECT_EQ(problem_at(64),
            "the plan is wrong: %a at 64..128 and %b at 64..128 overlap at '%b: f32[16] = "
            "aten::relu(%a) takes 0ns'");
}

TEST_F(ValidatePlan, EveryStorageHasOneOffsetAndNobodyElse) {
  EXPECT_EQ(problem({{"at %b 256B", ""}}), "the plan is wrong: %b has no offset");
  EXPECT_EQ(problem({{"workspace d 128B", ""}}),
            "the plan is wrong: the workspace of 'd' has no offset");
  EXPECT_EQ(problem({{"at %b 256B", "at %b 256B\nat %b 256B"}}),
            "the plan is wrong: %b has two offsets");
  EXPECT_EQ(problem({{"at %b 256B", "at %b 256B\nat %z 256B"}}),
            "the plan is wrong: %z has an offset, and there are no such bytes");
  EXPECT_EQ(problem({{"at %b 256B", "at %b 256B\nat %w.1 0B"}}),
            "the plan is wrong: %w.1 has an offset, and there are no such bytes");
  EXPECT_EQ(problem({{"workspace d 128B", "workspace d 128B\nworkspace e 128B"}}),
            "the plan is wrong: the workspace of 'e' has an offset, and there are no such bytes");
}

TEST_F(ValidatePlan, OffsetsAreAligned) {
  EXPECT_EQ(problem({{"at %r 64B", "at %r 80B"}}),
            "the plan is wrong: the offset of %r, 80, is not aligned to 64");
}

TEST_F(ValidatePlan, EverythingEndsWithinTheBudgets) {
  EXPECT_EQ(problem({{"at %e 256B", "at %e 384B"}}),
            "the plan is wrong: %e of 64 bytes, at 384, is not within the budget of 384");
  EXPECT_EQ(problem({{"budget 384B", "budget 320B"}}),
            "the plan is wrong: %b of 128 bytes, at 256, is not within the budget of 320");
  EXPECT_EQ(problem({{"host_budget 128B", "host_budget 64B"}}),
            "the plan is wrong: %a.host of 128 bytes, at 0, is not within the host_budget of 64");
  EXPECT_EQ(problem({{"at %a.host 0B", "at %a.host 9223372036854775744B"}}),
            "the plan is wrong: %a.host of 128 bytes, at 9223372036854775744, is not within the "
            "host_budget of 128");
}

TEST_F(ValidatePlan, NothingLiesBelowTheFirstByte) {
  PlanFile plan =
      parse_plan(fmt::format("ebb plan 1\ngraph {:016x}\n{}", fingerprint(graph_), kPlan)).value();
  plan.tensors[0].at = Bytes{-64};
  EXPECT_EQ(problem_of(plan),
            "the plan is wrong: %w of 64 bytes, at -64, is not within the budget of 384");
}

TEST_F(ValidatePlan, PeaksAreWhereTheLastOnesEnd) {
  EXPECT_EQ(problem({{"peak 384B", "peak 320B"}}),
            "the plan is wrong: peak is 320, and what lies there ends at 384");
  EXPECT_EQ(problem({{"host 128B", "host 192B"}, {"host_budget 128B", "host_budget 1KiB"}}),
            "the plan is wrong: host is 192, and what lies there ends at 128");
}

TEST_F(ValidatePlan, WithoutASwapItsTensorStaysWhereItIs) {
  EXPECT_EQ(problem({{"swap %a for e, r after c", ""},
                     {"move a.host below b", ""},
                     {"move a.back below d", ""},
                     {"at %a.host 0B", ""},
                     {"at %a.back 128B", ""},
                     {"host 128B", "host 0B"}}),
            "the plan is wrong: %a at 128..256 and the workspace of 'd' at 128..192 overlap at "
            "'%d: f32[16] = my::f(%c) takes 400ns workspace 64B'");
}

TEST_F(ValidatePlan, AReaderThatIsLeftOutKeepsTheTensorThere) {
  EXPECT_EQ(problem({{"swap %a for e, r after c", "swap %a for r after c"}}),
            "the plan is wrong: %a at 128..256 and %a.back at 128..256 overlap at '%a.back: "
            "f32[32] = ebb::swap_in(%a.host) after c'");
}

TEST_F(ValidatePlan, AnotherTriggerIsAnotherLine) {
  EXPECT_EQ(problem({{"swap %a for e, r after c", "swap %a for e, r after d"}}),
            "rule move does not apply to 'a.back': it does not stand above 'd'");
  EXPECT_EQ(problem({{"swap %a for e, r after c", "swap %a for e, r after r"}}),
            "rule swap does not apply to %a: 'r' runs after 'e', which would wait for it");
}

TEST_F(ValidatePlan, WithoutItsMoveASwapInTakesItsBytesTooEarly) {
  EXPECT_EQ(problem({{"move a.back below d", ""}}),
            "the plan is wrong: %a.back at 128..256 and the workspace of 'd' at 128..192 overlap "
            "at '%d: f32[16] = my::f(%c) takes 400ns workspace 64B'");
}

TEST_F(ValidatePlan, BytesAreNobodyElsesUntilTheyAreCopied) {
  EXPECT_EQ(problem({{"move a.host below b", "move a.host below d"},
                     {"swap %a for e, r after c", "swap %a for r after e"},
                     {"move a.back below d", ""}}),
            "the plan is wrong: the workspace of 'd' at 128..192 is there before 'a.host' has "
            "copied %a at 128..256");
}

TEST_F(ValidatePlan, APlanForAnotherGraphOrDeviceIsRefused) {
  const PlanFile plan =
      parse_plan(fmt::format("ebb plan 1\ngraph {:016x}\n{}", fingerprint(graph_), kPlan)).value();
  device_.name = "other";
  EXPECT_EQ(problem_of(plan),
            "the plan is wrong: it was made for device 'table', and this is 'other'");
  graph_ = parse_valid("graph g {\n  input %x: f32[16]\n  return %x\n}\n").value();
  EXPECT_NE(problem_of(plan).find("the plan was made for another graph"), std::string::npos);
}

TEST_F(ValidatePlan, APlanWithoutPredictionIsRefused) {
  EXPECT_EQ(problem({{"step 1810ns", ""}}),
            "the plan is wrong: it does not predict peak, host, step and unconstrained");
  EXPECT_EQ(problem({{"budget 384B", ""}}), "the plan is wrong: it has no budget");
}

TEST_F(ValidatePlan, AStepTakesWhatItComputesAndCopies) {
  EXPECT_EQ(problem({{"step 1810ns", "step 1809ns"}}),
            "the plan is wrong: step is 1.809us, and the step computes for 1.81us");
  EXPECT_EQ(problem({{"unconstrained 1810ns", "unconstrained 1800ns"}}),
            "the plan is wrong: unconstrained is 1.8us, and the original computes for 1.81us");
  device_.link.to_host = {1e7};
  EXPECT_EQ(problem(), "the plan is wrong: step is 1.81us, and all swap-outs take 12.8us");
  device_.link.to_host = {1e9};
  device_.link.to_device = {1e7};
  EXPECT_EQ(problem(), "the plan is wrong: step is 1.81us, and all swap-ins take 12.8us");
}

}  // namespace
}  // namespace ebb
