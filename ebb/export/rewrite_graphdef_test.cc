#include "ebb/export/rewrite_graphdef.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/import/graphdef_for_tests.h"

namespace ebb {
namespace {

using namespace for_tests;  // NOLINT(google-build-using-namespace): what the tests are written in
using ::testing::HasSubstr;

std::string op(std::string_view name, std::string_view type, std::vector<std::string> inputs,
               std::string_view more = {}) {
  return node(name, type, std::move(inputs), {{"T", type_of(1)}}, "/gpu:0") + std::string(more);
}

std::vector<std::string> training() {
  return {placeholder("x"),
          op("a", "Tanh", {"x"}),
          op("b", "Tanh", {"a"}),
          op("gradients/c", "Neg", {"b"}),
          op("gradients/d", "Neg", {"gradients/c"}),
          op("gradients/e", "Mul", {"gradients/d", "a"})};
}

TEST(RewriteGraphDef, ATrainingGraphIsRewrittenOnce) {
  const auto first = rewrite_graphdef(graphdef(training()), {}, {}, {});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->graphdef.empty());
  EXPECT_FALSE(first->was_rewritten_before);
  EXPECT_THAT(first->summary, HasSubstr("Swapped: 1 tensor"));
  EXPECT_THAT(first->report, HasSubstr("\"swap_ins\""));
  const auto second = rewrite_graphdef(first->graphdef, {}, {}, {});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->was_rewritten_before);
  EXPECT_EQ(second->graphdef, "");
}

TEST(RewriteGraphDef, NothingToSwapIsNoError) {
  const auto done =
      rewrite_graphdef(graphdef({placeholder("x"), op("a", "Tanh", {"x"})}), {}, {}, {});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->graphdef, "");
  EXPECT_FALSE(done->was_rewritten_before);
  EXPECT_THAT(done->summary, HasSubstr("Backward phase: none"));
}

TEST(RewriteGraphDef, BadInputSaysWhichNode) {
  const auto done = rewrite_graphdef(graphdef({op("a", "Tanh", {"nobody"})}), {}, {}, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, "G04");
  EXPECT_THAT(done.error().message, HasSubstr("'a'"));
}

TEST(RewriteGraphDef, NothingIsMovedIntoOrOutOfALoopNorByWhoLeadsThere) {
  // The forward value enters a loop in the backward phase; Enter and Switch stand outside, and what
  // they make does not. Triggers could be e or s, if they were like others.
  std::vector<std::string> nodes = training();
  nodes.push_back(placeholder("p", kBool));
  nodes.push_back(node("gradients/s", "Switch", {"a", "p"}, {{"T", type_of(1)}}, "/gpu:0"));
  nodes.push_back(enter("gradients/e2", "gradients/d", "L"));
  nodes.push_back(op("gradients/inside", "Neg", {"gradients/e2"}));
  nodes.push_back(op("gradients/out", "Exit", {"gradients/inside"}));
  nodes.push_back(op("gradients/f", "Mul", {"gradients/out", "a"}));
  nodes.push_back(op("gradients/g", "AddV2", {"gradients/f", "gradients/s:1"}));
  LmsOptions options;
  for (const std::string_view strategy : {"chain_rule", "direct_order"}) {
    options.ctrld_strategy = strategy;
    const auto done = rewrite_graphdef(graphdef(nodes), options, {}, {});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->graphdef.find("^gradients/e2"), std::string::npos);
    EXPECT_EQ(done->graphdef.find("^gradients/s"), std::string::npos);
    EXPECT_EQ(done->graphdef.find("gradients/s_1.host"), std::string::npos);
  }
}

}  // namespace
}  // namespace ebb
