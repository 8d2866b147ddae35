#include "ebb/import/graphdef_scopes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/import/graphdef.h"
#include "ebb/import/graphdef_for_tests.h"

namespace ebb {
namespace {

using namespace for_tests;  // NOLINT(google-build-using-namespace): what the tests are written in
using ::testing::HasSubstr;

Graph read(const std::vector<std::string>& nodes) {
  auto graph = import_graphdef(graphdef(nodes));
  EXPECT_TRUE(graph) << graph.error().code << ": " << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}

std::string refusal(const std::vector<std::string>& nodes) {
  const auto graph = import_graphdef(graphdef(nodes));
  return graph ? "accepted" : graph.error().code + ": " + graph.error().message;
}

// "loop/p=true": from the outside in.
std::string where(const Graph& graph, std::string_view name) {
  const NodeId node = graph.find_node(name);
  EXPECT_TRUE(node.valid()) << name;
  std::string path;
  for (ScopeId at = graph.scope(node); at.valid(); at = graph.parent(at)) {
    path = path.empty() ? std::string(graph.name(at)) : fmt::format("{}/{}", graph.name(at), path);
  }
  return path;
}

std::string switched(std::string_view name, std::string_view data, std::string_view pred) {
  return node(name, "Switch", {std::string(data), std::string(pred)}, {{"T", type_of(kFloat)}});
}

using Nodes = std::vector<std::string>;
Nodes operator+(Nodes a, const Nodes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Nodes inputs() { return {placeholder("x"), placeholder("p", kBool), placeholder("q", kBool)}; }

TEST(GraphDefScopes, TheSidesOfAConditionalAreBranches) {
  const Graph graph = read(inputs() + Nodes{switched("s", "x", "p"), unary("f", "Relu", "s"),
                                            unary("t", "Relu", "s:1"), merge("m", {"f", "t"}),
                                            unary("after", "Relu", "m")});
  EXPECT_EQ(where(graph, "s"), "");
  EXPECT_EQ(where(graph, "f"), "p=false");
  EXPECT_EQ(where(graph, "t"), "p=true");
  EXPECT_EQ(where(graph, "m"), "");
  EXPECT_EQ(where(graph, "after"), "");
}

TEST(GraphDefScopes, OnePredicateThroughIdentityIsOneBranch) {
  const Graph graph =
      read(inputs() + Nodes{unary("id", "Identity", "p", kBool),
                            unary("id2", "Identity", "id", kBool), switched("s", "x", "id2"),
                            switched("s2", "x", "p"), binary("both", "AddV2", {"s:1", "s2:1"})});
  EXPECT_EQ(where(graph, "both"), "p=true");
  EXPECT_EQ(graph.scope_count(), 1U);
}

TEST(GraphDefScopes, APredicateThatWasSwitchedItselfIsTheSame) {
  // As TensorFlow 1 takes an inner predicate into the outer branch: by a Switch of its own.
  const Graph graph = read(
      inputs() + Nodes{switched("s", "x", "p"),
                       node("q.in", "Switch", {"q", "p"}, {{"T", type_of(kBool)}}),
                       unary("id", "Identity", "q.in:1", kBool), switched("a", "s:1", "q.in:1"),
                       switched("b", "s:1", "id"), binary("t", "AddV2", {"a:1", "b:1"}),
                       binary("f", "AddV2", {"a", "b"}), merge("m", {"f", "t"})});
  EXPECT_EQ(where(graph, "t"), "p=true/q=true");
  EXPECT_EQ(where(graph, "m"), "p=true");
}

TEST(GraphDefScopes, ConditionalsNest) {
  const Graph graph = read(inputs() + Nodes{switched("s", "x", "p"), switched("inner", "s:1", "q"),
                                            unary("tt", "Relu", "inner:1"),
                                            unary("tf", "Relu", "inner"), merge("mi", {"tf", "tt"}),
                                            unary("t", "Relu", "mi"), merge("m", {"s", "t"})});
  EXPECT_EQ(where(graph, "inner"), "p=true");
  EXPECT_EQ(where(graph, "tt"), "p=true/q=true");
  EXPECT_EQ(where(graph, "mi"), "p=true");
  EXPECT_EQ(where(graph, "m"), "");
}

TEST(GraphDefScopes, TheSamePredicatesMayNestInEitherOrderWithControlEdges) {
  // Pivots of both nests hold constants; neither edge leaves its branch.
  const Graph graph =
      read(inputs() + Nodes{switched("a", "x", "p"), switched("ab", "a:1", "q"),
                            unary("pa", "Identity", "a:1"), unary("pab", "Identity", "ab:1"),
                            node("c1", "Const", {"^pa", "^pab"}, {{"dtype", type_of(1)}}),
                            switched("b", "x", "q"), switched("ba", "b:1", "p"),
                            unary("pb", "Identity", "b:1"), unary("pba", "Identity", "ba:1"),
                            node("c2", "Const", {"^pb", "^pba"}, {{"dtype", type_of(1)}})});
  EXPECT_EQ(where(graph, "c1"), "p=true/q=true");
  EXPECT_THAT(where(graph, "c2"), HasSubstr("q=true"));
}

TEST(GraphDefScopes, AMergeThatMayGetNothingIsABranchOfItsOwn) {
  const Graph graph = read(inputs() + Nodes{switched("s", "x", "p"), switched("i", "s:1", "q"),
                                            unary("f", "Relu", "s"), unary("tt", "Relu", "i:1"),
                                            merge("m", {"f", "tt"}), unary("after", "Relu", "m")});
  EXPECT_EQ(where(graph, "m"), "m");
  EXPECT_EQ(where(graph, "after"), "m");
}

TEST(GraphDefScopes, AMergeWithAnInputThatAlwaysComesAlwaysRuns) {
  const Graph graph = read(inputs() + Nodes{switched("s", "x", "p"), merge("m", {"x", "s:1"})});
  EXPECT_EQ(where(graph, "m"), "");
}

TEST(GraphDefScopes, WhoOnlyWaitsForBothSidesRunsOutsideThemIfItIsToldTo) {
  const Nodes sides = {switched("s", "x", "p"), unary("f", "Relu", "s"), unary("t", "Relu", "s:1")};
  const Graph graph = read(inputs() + sides +
                           Nodes{node("sync", "ControlTrigger", {"^f", "^t"}),
                                 node("m", "Merge", {"s", "s:1", "^f", "^t"},
                                      {{"N", number_of(2)}, {"T", type_of(1)}})});
  EXPECT_EQ(where(graph, "sync"), "");
  EXPECT_EQ(where(graph, "m"), "");
}

TEST(GraphDefScopes, ASwitchOfManySidesIsMergedWhenAllOfThemComeIn) {
  const Nodes sides = {
      placeholder("n", kInt32),
      node("s", "_SwitchN", {"x", "n"}, {{"T", type_of(1)}, {"num_outs", number_of(3)}}),
      unary("a", "Relu", "s"), unary("b", "Relu", "s:1"), unary("c", "Relu", "s:2")};
  const Graph all = read(inputs() + sides + Nodes{merge("m", {"a", "b", "c"})});
  EXPECT_EQ(where(all, "b"), "n=1");
  EXPECT_EQ(where(all, "m"), "");
  const Graph some = read(inputs() + sides + Nodes{merge("m", {"a", "b"})});
  EXPECT_EQ(where(some, "m"), "m");
}

// while (...) { body }: `prefix` keeps two apart, `data` enters.
Nodes loop(const std::string& prefix, const std::string& data, const std::string& frame,
           const std::string& body_op = "Relu") {
  return {enter(prefix + "enter", data, frame),
          merge(prefix + "merge", {prefix + "enter", prefix + "next"}),
          binary(prefix + "less", "Less", {prefix + "merge", prefix + "merge"}),
          node(prefix + "cond", "LoopCond", {prefix + "less"}),
          switched(prefix + "switch", prefix + "merge", prefix + "cond"),
          unary(prefix + "body", body_op, prefix + "switch:1"),
          unary(prefix + "next", "NextIteration", prefix + "body"),
          unary(prefix + "exit", "Exit", prefix + "switch")};
}

TEST(GraphDefScopes, LoopsAreFramesAndTheirBodiesBranches) {
  const Graph graph = read(inputs() + loop("", "x", "L") + Nodes{unary("after", "Relu", "exit")});
  EXPECT_EQ(where(graph, "enter"), "");
  EXPECT_EQ(where(graph, "merge"), "L");
  EXPECT_EQ(where(graph, "cond"), "L");
  EXPECT_EQ(where(graph, "body"), "L/cond=true");
  EXPECT_EQ(where(graph, "next"), "L/cond=true");
  EXPECT_EQ(where(graph, "exit"), "");
  EXPECT_EQ(where(graph, "after"), "");
}

TEST(GraphDefScopes, LoopsNestAndHoldConditionals) {
  Nodes nodes = inputs();
  nodes =
      nodes + Nodes{enter("e", "x", "L"), merge("m", {"e", "n"}), binary("l", "Less", {"m", "m"}),
                    node("c", "LoopCond", {"l"}), switched("s", "m", "c")};
  nodes = nodes + loop("in/", "s:1", "K");
  nodes = nodes + Nodes{binary("less2", "Less", {"in/exit", "in/exit"}),
                        switched("s2", "in/exit", "less2"),
                        unary("t", "Relu", "s2:1"),
                        merge("joined", {"s2", "t"}),
                        unary("n", "NextIteration", "joined"),
                        unary("x2", "Exit", "s")};
  const Graph graph = read(nodes);
  EXPECT_EQ(where(graph, "in/body"), "L/c=true/K/in/cond=true");
  EXPECT_EQ(where(graph, "in/exit"), "L/c=true");
  EXPECT_EQ(where(graph, "t"), "L/c=true/less2=true");
  EXPECT_EQ(where(graph, "joined"), "L/c=true");
  EXPECT_EQ(where(graph, "x2"), "");
}

TEST(GraphDefScopes, ALoopInABranchStandsInItAlsoWhereAConstantEntersFirst) {
  // The constant runs always, the other value in the branch only, and it enters below the Exit.
  Nodes nodes = inputs() + loop("", "x", "L");
  nodes = nodes + Nodes{switched("p.s", "x", "p"), unary("late", "Relu", "p.s:1"),
                        enter("late.enter", "late", "L"), unary("after", "Relu", "exit")};
  const Graph graph = read(nodes);
  EXPECT_EQ(where(graph, "body"), "p=true/L/cond=true");
  EXPECT_EQ(where(graph, "exit"), "p=true");
  EXPECT_EQ(where(graph, "after"), "p=true");
}

TEST(GraphDefScopes, TwoLoopsOfOneNameInDifferentLoopsAreTwo) {
  Nodes nodes = inputs();
  for (const std::string outer : {"A", "B"}) {
    nodes = nodes + Nodes{enter(outer + ".e", "x", outer)} + loop(outer + ".", outer + ".e", "K");
  }
  const Graph graph = read(nodes);
  EXPECT_EQ(where(graph, "A.merge"), "A/K");
  EXPECT_EQ(where(graph, "B.merge"), "B/K#2");
}

TEST(GraphDefScopes, WronglyClosedLoopsAreRefused) {
  EXPECT_THAT(refusal(inputs() + loop("", "x", "L") + Nodes{binary("bad", "AddV2", {"x", "body"})}),
              HasSubstr("G06: node 'bad' reads from outside every loop and from the loop 'L'"));
  EXPECT_THAT(refusal(inputs() + Nodes{enter("e", "x", "L"), enter("e2", "x", "K"),
                                       binary("bad", "AddV2", {"e", "e2"})}),
              HasSubstr("G06: node 'bad' reads from the loop 'L' and from the loop 'K'"));
  EXPECT_THAT(refusal(inputs() + Nodes{unary("bad", "Exit", "x")}),
              HasSubstr("G06: node 'bad' leaves a loop and is in none"));
  EXPECT_THAT(refusal(inputs() + Nodes{unary("bad", "NextIteration", "x")}),
              HasSubstr("G06: node 'bad' goes to the next round of a loop and is in none"));
  EXPECT_THAT(
      refusal(inputs() + Nodes{enter("e", "x", "L"), unary("n", "NextIteration", "e"),
                               merge("bad", {"x", "n"})}),
      HasSubstr("G06: node 'bad' reads from outside every loop and, a round later, from the "
                "loop 'L' ('n')"));
  EXPECT_THAT(refusal(inputs() + Nodes{enter("e", "x", "L"), unary("n", "NextIteration", "e"),
                                       merge("bad", {"e", "n:1"})}),
              HasSubstr("G04: node 'bad' reads 'n:1'"));
}

TEST(GraphDefScopes, DeepNestsAreRefusedAndDoNotTakeForever) {
  Nodes nodes = inputs();
  std::string last = "x";
  for (int i = 0; i < 3000; ++i) {
    const std::string pred = "p" + std::to_string(i);
    const std::string name = "s" + std::to_string(i);
    nodes.push_back(placeholder(pred, kBool));
    nodes.push_back(switched(name, last, pred));
    last = name + ":1";
  }
  EXPECT_THAT(refusal(nodes), HasSubstr("G06: node 's1001' is in more than 1000 conditionals"));
}

TEST(GraphDefScopes, FramesWithoutAUsefulNameGetOne) {
  const Graph graph = read(inputs() + loop("a.", "x", "") + loop("b.", "x", "\xff"));
  EXPECT_EQ(where(graph, "a.merge"), "loop");
  EXPECT_EQ(where(graph, "b.merge"), "loop#2");
}

}  // namespace
}  // namespace ebb
