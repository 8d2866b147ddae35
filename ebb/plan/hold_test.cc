#include "ebb/plan/hold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"

namespace ebb {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  Held held;
  std::string text;
};

Outcome hold(std::string_view body, const HoldOptions& options) {
  Graph graph = parse("graph step {\n" + std::string(body) + "\n}\n")->graph;
  Rewriter rewriter(graph);
  Outcome out;
  out.held = hold_to_lines(rewriter, std::vector<Bytes>(graph.node_count()), options);
  out.text = print(graph);
  return out;
}

// 4 KiB each. %a and %b leave for the host; at 'd' the lines hold %c and %d, 8 KiB.
constexpr std::string_view kTwoLeave = R"(  input %x: f32[1]
  %a: f32[1024] = my::f(%x)
  %a.host: f32[1024] @host = ebb::swap_out(%a)
  %b: f32[1024] = my::f(%a)
  %b.host: f32[1024] @host = ebb::swap_out(%b)
  %c: f32[1024] = my::f(%b)
  %d: f32[1024] = my::f(%c)
  %gradients/d: f32[1] = my::df(%d)
  %b.back: f32[1024] = ebb::swap_in(%b.host) after gradients/d
  %gradients/b: f32[1] = my::df(%b.back)
  %a.back: f32[1024] = ebb::swap_in(%a.host) after gradients/b
  %gradients/a: f32[1] = my::df(%a.back)
  return %gradients/a)";

TEST(Hold, AnOperationWaitsForCopiesWhoseBytesItNeeds) {
  // At 'c' the lines hold %b and %c, and %a may still be there: 12 KiB and a little.
  const Outcome enough = hold(kTwoLeave, {.budget = Bytes{13 << 10}});
  EXPECT_EQ(enough.held.release_edges, 1U);  // at 'd', when %b could be there as well
  EXPECT_THAT(enough.text, HasSubstr("%d: f32[1024] = my::f(%c) after a.host"));
  const Outcome short_of = hold(kTwoLeave, {.budget = Bytes{9 << 10}});
  EXPECT_THAT(short_of.text, HasSubstr("%c: f32[1024] = my::f(%b) after a.host"));
  EXPECT_THAT(short_of.text, HasSubstr("%d: f32[1024] = my::f(%c) after b.host"));
  EXPECT_EQ(hold(kTwoLeave, {.budget = Bytes{64 << 10}}).held.release_edges, 0U);
}

TEST(Hold, OperationsOnLargeTensorsKeepTheirOrder) {
  constexpr std::string_view kBody = R"(  input %x: f32[1024]
  %a: f32[1024] = my::f(%x)
  %s: f32[1] = my::f()
  %b: f32[1024] = my::f(%x)
  %c: f32[1] = my::f(%b)
  return %a, %s, %c)";
  const Outcome out = hold(kBody, {.budget = Bytes{1 << 20}, .large = Bytes{4096}});
  EXPECT_EQ(out.held.order_edges, 1U);
  EXPECT_THAT(out.text, HasSubstr("%b: f32[1024] = my::f(%x) after a"));
  EXPECT_THAT(out.text, HasSubstr("%s: f32[1] = my::f()\n"));
}

// Who evaluates runs %v without the labels, and must not come to run %u; training runs both.
TEST(Hold, WhatMayRunWithoutTheStepIsNotMadeToWaitForIt) {
  constexpr std::string_view kBody = R"(  input %x: f32[1024]
  input %labels: f32[1024]
  %init: f32[1024] = my::random()
  %u: f32[1024] = my::f(%labels)
  %v: f32[1024] = my::f(%x)
  %gradients/v: f32[1024] = my::df(%v, %u)
  %gradients/u: f32[1024] = my::df(%u, %v)
  return %init, %v, %gradients/v, %gradients/u)";
  const HoldOptions whole{.budget = Bytes{1 << 20}, .large = Bytes{4096}};
  const Outcome all = hold(kBody, whole);
  EXPECT_EQ(all.held.order_edges, 3U);
  HoldOptions parts = whole;
  parts.runs_as_a_whole = false;
  const Outcome some = hold(kBody, parts);
  EXPECT_EQ(some.held.order_edges, 1U);
  EXPECT_THAT(some.text, HasSubstr("%gradients/u: f32[1024] = my::df(%u, %v) after gradients/v"));
  EXPECT_THAT(some.text, Not(HasSubstr("after init")));
}

TEST(Hold, InAPartAnOperationWaitsForNoCopyOfWhatItDoesNotDependOn) {
  constexpr std::string_view kBody = R"(  input %x: f32[1024]
  %a: f32[1024] = my::f(%x)
  %a.host: f32[1024] @host = ebb::swap_out(%a)
  %b: f32[1024] = my::f(%x)
  %c: f32[1024] = my::f(%b)
  %gradients/c: f32[1] = my::df(%c)
  %a.back: f32[1024] = ebb::swap_in(%a.host) after gradients/c
  %gradients/a: f32[1] = my::df(%a.back)
  return %gradients/a)";
  HoldOptions options{.budget = Bytes{9 << 10}};
  EXPECT_EQ(hold(kBody, options).held.release_edges, 1U);
  options.runs_as_a_whole = false;
  const Outcome out = hold(kBody, options);
  EXPECT_THAT(out.text, HasSubstr("%b: f32[1024] = my::f(%x)\n"));
  EXPECT_THAT(out.text, HasSubstr("%c: f32[1024] = my::f(%b)\n"));
}

// The plan gives %a's bytes to 'c'. Without the edge 'n' may look at them as late as it likes.
TEST(Hold, WhoOnlyLooksHasLookedWhenTheTensorHasNoOtherUse) {
  constexpr std::string_view kBody = R"(  input %x: f32[1]
  %a: f32[1024] = my::f(%x)
  %b: f32[1024] = my::f(%a)
  %c: f32[1024] = my::f(%b)
  %gradients/n: i32[1] @host = my::shape(%a)
  %gradients/c: f32[1024] = my::df(%c, %gradients/n)
  return %gradients/c)";
  HoldOptions options{.budget = Bytes{1 << 20}, .large = Bytes{4096}};
  const Outcome whole = hold(kBody, options);
  EXPECT_EQ(whole.held.order_edges, 1U);
  EXPECT_THAT(whole.text, HasSubstr("%c: f32[1024] = my::f(%b) after gradients/n"));
  // Who evaluates 'c' has %a, and looks at it: no more than that.
  options.runs_as_a_whole = false;
  EXPECT_EQ(hold(kBody, options).text, whole.text);
  // Small tensors may be there as long as they like.
  options.large = Bytes{4097};
  EXPECT_EQ(hold(kBody, options).held.order_edges, 0U);
}

TEST(Hold, InAPartAnOperationWaitsForNobodyWhoLooksAtSomethingElse) {
  constexpr std::string_view kBody = R"(  input %x: f32[1024]
  input %labels: f32[1024]
  %u: f32[1024] = my::f(%labels)
  %n: i32[1] @host = my::shape(%u)
  %v: f32[1024] = my::f(%x)
  %gradients/v: f32[1024] = my::df(%v, %n)
  return %v, %gradients/v)";
  HoldOptions options{.budget = Bytes{1 << 20}, .large = Bytes{4096}};
  EXPECT_THAT(hold(kBody, options).text, HasSubstr("%v: f32[1024] = my::f(%x) after n\n"));
  options.runs_as_a_whole = false;
  const Outcome part = hold(kBody, options);
  EXPECT_THAT(part.text, HasSubstr("%v: f32[1024] = my::f(%x)\n"));
}

}  // namespace
}  // namespace ebb
