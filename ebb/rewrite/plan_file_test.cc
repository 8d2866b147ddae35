#include "ebb/rewrite/plan_file.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"

namespace ebb {
namespace {

constexpr std::string_view kChain = R"(graph g {
  input %x: f32[8]
  %a: f32[8] = aten::relu(%x)
  %b: f32[8] = aten::sin(%a)
  %c: f32[8] = aten::mul(%b, %a)
  return %c
}
)";

std::string error_of(std::string_view text) {
  const auto plan = parse_plan(text);
  return plan ? "no error" : plan.error().render("my.plan");
}

TEST(PlanFile, RoundTrips) {
  const std::string text =
      "ebb plan 1\n"
      "graph 00000000000000ff\n"
      "device h100 sxm\n"
      "budget 16GiB\n"
      "recompute %a for c after b\n"
      "swap %\"a # b\" for c after b\n"
      "end\n";
  const auto plan = parse_plan(text);
  ASSERT_TRUE(plan) << plan.error().render("my.plan");
  EXPECT_EQ(plan->fingerprint, 255U);
  EXPECT_EQ(plan->device, "h100 sxm");
  EXPECT_EQ(plan->budget, Bytes{std::int64_t{16} << 30U});
  ASSERT_EQ(plan->decisions.size(), 2U);
  EXPECT_EQ(plan->decisions[1].number, 6);
  EXPECT_EQ(to_text(*plan), text);
}

TEST(PlanFile, TakesCommentsBlankLinesAndCarriageReturns) {
  const auto plan = parse_plan(
      "\xEF\xBB\xBF# mine\r\n\r\nebb plan 1 # first\r\n  graph 00000000000000ff\r\n\tdelay b after "
      "a "
      "# why\r\nend # of it");
  ASSERT_TRUE(plan) << plan.error().render("my.plan");
  ASSERT_EQ(plan->decisions.size(), 1U);
  EXPECT_EQ(plan->decisions[0].text, "delay b after a");
  EXPECT_EQ(plan->decisions[0].number, 5);
}

TEST(PlanFile, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(error_of(""), "my.plan: L01: the plan is empty; a plan begins with 'ebb plan 1'");
  EXPECT_EQ(error_of("graph g {\n"),
            "my.plan:1: L01: this is no plan; a plan begins with 'ebb plan 1'");
  EXPECT_EQ(error_of("ebb plan 2\n"),
            "my.plan:1: L02: a plan of version '2'; this program reads version 1, so make the plan "
            "again");
  EXPECT_EQ(error_of("ebb plan 1\n"),
            "my.plan:1: L03: the plan ends before it names its graph; get the whole file");
  for (const char* line :
       {"graph ff", "graph 00000000000000fg", "swap %a for c after b", "graph"}) {
    EXPECT_EQ(error_of(std::string("ebb plan 1\n\n") + line),
              "my.plan:3: L03: expected the fingerprint of a graph, as 'graph 8f14e45fceea167a'");
  }
  const std::string head = "ebb plan 1\ngraph 00000000000000ff\n";
  EXPECT_EQ(error_of(head + "device\n"), "my.plan:3: L04: 'device' names no device");
  EXPECT_EQ(error_of(head + "device a\ndevice b\n"),
            "my.plan:4: L04: the device is given twice; remove one");
  EXPECT_EQ(error_of(head + "budget 1GiB\nbudget 1GiB\n"),
            "my.plan:4: L04: 'budget' is given twice; remove one");
  EXPECT_EQ(error_of(head + "budget much\n").substr(0, 16), "my.plan:3: L04: ");
  for (const char* line : {"at %a", "at %a much", "at %", "workspace a"}) {
    EXPECT_EQ(error_of(head + line + "\nend\n"),
              "my.plan:3: L06: expected a name and a number of bytes, as 'at %h 4KiB'");
  }
  EXPECT_EQ(error_of(head + "peak 1KiB\ndelay a after b\nend\n"),
            "my.plan:4: L06: expected more of what the plan predicts; decisions stand above that");
  EXPECT_EQ(error_of(head + "step 1s\nstep 1s\nend\n"),
            "my.plan:4: L04: 'step' is given twice; remove one");
  EXPECT_EQ(error_of(head + "delay a after b\n"),
            "my.plan:3: L03: the plan ends without the line 'end'; get the whole file");
  EXPECT_EQ(error_of(head + "end\n\ndelay a after b\n"),
            "my.plan:5: L03: the plan has ended above, with 'end'");
  EXPECT_EQ(error_of("end\n"),
            "my.plan:1: L01: the plan is empty; a plan begins with 'ebb plan 1'");
}

TEST(PlanFile, HasWhatIsExpectedOfItBelowTheDecisions) {
  const std::string text =
      "ebb plan 1\ngraph 00000000000000ff\ndevice h200\nbudget 16GiB\nhost_budget 3GiB\n"
      "swap %a for c after b\n"
      "peak 15GiB\nhost 3GiB\nstep 212ms\nunconstrained 200ms\n"
      "at %x 0B\nat %\"odd name\" 4KiB\nworkspace gw 1MiB\nend\n";
  const auto plan = parse_plan(text);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(to_text(*plan), text);
  EXPECT_EQ(plan->decisions.size(), 1U);
  EXPECT_EQ(plan->peak, Bytes{std::int64_t{15} << 30});
  EXPECT_EQ(plan->step, std::chrono::milliseconds(212));
  EXPECT_EQ(plan->tensors[1].name, "\"odd name\"");
  EXPECT_EQ(plan->tensors[1].at, Bytes{4096});
}

TEST(PlanFile, IsAppliedToTheGraphItWasMadeFor) {
  const Graph graph = parse_valid(kChain).value();
  Graph rewritten = graph;
  Rewriter rewriter(rewritten);
  for (const char* text : {"swap %a for c after b", "delay a.back after a"}) {
    ASSERT_TRUE(rewriter.apply(parse_decision(rewritten, text).value()));
  }
  rewriter.settle();
  const auto plan = parse_plan(to_text(plan_of(graph, rewriter.graph(), rewriter.journal())));
  ASSERT_TRUE(plan);
  const auto again = apply_plan(graph, *plan);
  ASSERT_TRUE(again) << again.error().render("my.plan");
  EXPECT_EQ(print(again->graph), print(rewritten));
}

TEST(PlanFile, IsRefusedForAnotherGraph) {
  const Graph graph = parse_valid(kChain).value();
  PlanFile plan;
  plan.fingerprint = 1;
  const auto applied = apply_plan(graph, plan);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(applied.error().render("my.plan").find(
                "my.plan: L05: the plan was made for another graph (0000000000000001,"),
            std::string::npos);
}

TEST(PlanFile, NamesTheLineOfTheDecisionThatDoesNotApply) {
  const Graph graph = parse_valid(kChain).value();
  PlanFile plan;
  plan.fingerprint = fingerprint(graph);
  plan.decisions = {{"swap %a for c after b", 3}, {"swap %a for b after c", 5}};
  auto applied = apply_plan(graph, plan);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().render("my.plan"),
            "my.plan:5: R09: rule swap does not apply to %a: 'c' runs after 'b', which would wait "
            "for it");
  plan.decisions[1].text = "swap %a for q after c";
  applied = apply_plan(graph, plan);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().render("my.plan"),
            "my.plan:5:13: P24: there is no node 'q' in this graph");
}

TEST(PlanFile, HasAFingerprintThatChangesWithTheGraph) {
  const Graph graph = parse_valid(kChain).value();
  std::string other(kChain);
  other.replace(other.find("sin"), 3, "cos");
  EXPECT_EQ(fingerprint(graph), fingerprint(parse_valid(kChain).value()));
  EXPECT_NE(fingerprint(graph), fingerprint(parse_valid(other).value()));
}

}  // namespace
}  // namespace ebb
