#include "ebb/rewrite/rewriter.h"

#include <gtest/gtest.h>

#include "ebb/base/check.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/graph/verify.h"

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

Decision decision(const Graph& graph, std::string_view text) {
  return parse_decision(graph, text).value();
}

TEST(Rewriter, KeepsAJournalOfWhatEachRuleDid) {
  Graph graph = parse_valid(kChain).value();
  Rewriter rewriter(graph);
  const Decision swap = decision(graph, "swap %a for c after b");
  const Decision delay = decision(graph, "delay c after b");
  ASSERT_TRUE(rewriter.apply(swap));
  ASSERT_TRUE(rewriter.apply(delay));
  ASSERT_FALSE(rewriter.apply(decision(graph, "delay b after c")));
  ASSERT_EQ(rewriter.journal().size(), 2U) << "what is refused is not in the journal";
  EXPECT_EQ(rewriter.journal()[0].decision, swap);
  EXPECT_EQ(rewriter.journal()[0].added.size(), 2U);
  EXPECT_EQ(graph.name(rewriter.journal()[0].added[1]), "a.back");
  EXPECT_EQ(rewriter.journal()[0].edges_moved, 1U);
  EXPECT_EQ(rewriter.journal()[1].decision, delay);
  EXPECT_TRUE(rewriter.journal()[1].added.empty());
}

TEST(Rewriter, WritesTheOrderOfLinesWhenItSettles) {
  Graph graph = parse_valid(kChain).value();
  Rewriter rewriter(graph, {.verify_each = false});
  ASSERT_TRUE(rewriter.apply(decision(graph, "swap %a for c after b")));
  EXPECT_EQ(verify(graph).error().code, "V13") << "new lines stand last until then";
  rewriter.settle();
  EXPECT_TRUE(verify(graph));
}

TEST(Rewriter, ChecksWithoutChangingAnything) {
  Graph graph = parse_valid(kChain).value();
  const Rewriter rewriter(graph);
  EXPECT_TRUE(rewriter.check(decision(graph, "swap %a for c after b")));
  EXPECT_FALSE(rewriter.check(decision(graph, "swap %a for b after c")));
  EXPECT_EQ(print(graph), kChain);
}

// No rule of ours breaks anything that we know of, so somebody else does.
TEST(Rewriter, NamesTheRuleAfterWhichAnInvariantIsBroken) {
  Graph graph = parse_valid(kChain).value();
  Rewriter rewriter(graph, {.verify_each = true});
  ASSERT_TRUE(rewriter.apply(decision(graph, "delay c after a")));
  GraphEdit(graph).set_type(graph.find_tensor("b"), TypeId(77));
  try {
    FAIL() << "not noticed: " << rewriter.apply(decision(graph, "delay c after b")).has_value();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("the rule 'delay c after b' broke V01"),
              std::string::npos)
        << error.what();
    EXPECT_FALSE(error.dump().empty());
  }
}

TEST(Rewriter, NamesTheRuleThatAddedABrokenNodeWhenItSettles) {
  Graph graph = parse_valid(kChain).value();
  Rewriter rewriter(graph, {.verify_each = false});
  ASSERT_TRUE(rewriter.apply(decision(graph, "swap %a for c after b")));
  ASSERT_TRUE(rewriter.apply(decision(graph, "delay c after a")));
  GraphEdit(graph).set_operand(graph.find_node("a.back"), 0, graph.find_tensor("a"));
  try {
    rewriter.settle();
    FAIL() << "not noticed";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("the rule 'swap %a for c after b' broke V20"),
              std::string::npos)
        << error.what();
  }
}

TEST(Rewriter, GivesManyCopiesOfOneTensorNamesInTimeLinearInTheirNumber) {
  constexpr int kReaders = 20'000;
  std::string text = "graph g {\n  input %x: f32[8]\n  %a: f32[8] = my::op(%x)\n";
  text += "  %t: f32[8] = my::op(%a)\n";
  for (int i = 0; i < kReaders; ++i) {
    text += "  %r" + std::to_string(i) + ": f32[8] = my::op(%t, %a)\n";
  }
  text += "  return\n}\n";
  Graph graph = parse_valid(text).value();
  Rewriter rewriter(graph, {.verify_each = false});
  SwapDecision swap{.tensor = graph.find_tensor("a"), .groups = {}, .codec = {}};
  for (int i = 0; i < kReaders; ++i) {
    swap.groups.push_back(
        {.readers = {graph.find_node("r" + std::to_string(i))}, .trigger = graph.find_node("t")});
  }
  ASSERT_TRUE(rewriter.apply(swap));
  rewriter.settle();
  EXPECT_TRUE(graph.find_tensor("a.back." + std::to_string(kReaders)).valid());
}

}  // namespace
}  // namespace ebb
