// The invariants that no text can break: a builder's or a rewriter's mistakes. The others are in
// tests/text/invariants.test.
#include "ebb/graph/verify.h"

#include <set>

#include <gtest/gtest.h>

#include "ebb/graph/edit.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/verify_checks.h"

namespace ebb {
namespace {

Graph small_graph() {
  return parse_valid(R"(graph g {
  frame f
  input %x: f32[4]
  scalar $s: f64
  %a: f32[4] = my::op(%x) {k = $s}
  %b: f32[4] = my::op(%a) after a
  return %b
}
)")
      .value();
}

// The graph after a change through the raw door, and what the verifier says of it.
template <class Change>
std::string verdict_after(Change change) {
  Graph graph = small_graph();
  GraphEdit edit(graph);
  change(graph, edit);
  const auto found = find_violations(graph, 1);
  return found.empty() ? "valid" : std::string(found[0].code) + ": " + found[0].message;
}

TEST(Verify, AcceptsTheGraphTheseTestsBreak) {
  EXPECT_EQ(verdict_after([](Graph&, GraphEdit&) {}), "valid");
}

TEST(Verify, V01AnOperandOutOfRange) {
  EXPECT_EQ(verdict_after(
                [](Graph& g, GraphEdit& e) { e.set_operand(g.find_node("b"), 0, TensorId(99)); }),
            "V01: 'b' reads tensor number 99, of 3");
}
TEST(Verify, V01AControlEdgeOutOfRange) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const NodeId nobody(99);
              e.set_controls(g.find_node("b"), std::span(&nobody, 1));
            }),
            "V01: 'b' waits for node number 99, of 4");
}
TEST(Verify, V01ACloneOutOfRange) {
  EXPECT_EQ(
      verdict_after([](Graph& g, GraphEdit& e) { e.set_clone_of(g.find_node("b"), NodeId(99)); }),
      "V01: 'b' is a clone of node number 99, of 4");
}
TEST(Verify, V01AScopeOutOfRange) {
  EXPECT_EQ(
      verdict_after([](Graph& g, GraphEdit& e) { e.set_scope(g.find_node("b"), ScopeId(99)); }),
      "V01: 'b' stands in scope number 99, of 1");
}
TEST(Verify, V01AScopeInALaterOne) {
  EXPECT_EQ(verdict_after([](Graph&, GraphEdit& e) {
              e.add_scope(Scope::Kind::kBranch, e.intern("b"), ScopeId(1));
            }),
            "V01: scope 'b' stands in scope number 1, which is not before it");
}
TEST(Verify, V01AScalarOutOfRange) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const Value value = ScalarId(99);
              e.add_attribute(g.find_node("b"), e.intern("k"), false, std::span(&value, 1));
            }),
            "V01: 'b' uses a scalar that is not among the graph's 1");
}
TEST(Verify, V01AnOutputOutOfRange) {
  EXPECT_EQ(verdict_after([](Graph&, GraphEdit& e) {
              const TensorId nothing(99);
              e.set_outputs(std::span(&nothing, 1));
            }),
            "V01: the graph returns tensor number 99, of 3");
}

TEST(Verify, V02TwoNodesOfOneName) {
  EXPECT_EQ(
      verdict_after([](Graph& g, GraphEdit& e) {
        e.add_result(e.add_node(NodeKind::kOp, "my::op"), e.intern("a"), g.type_id(TensorId(0)));
      }),
      "V02: two things are named 'a': %a: f32[4] = my::op(%x) {k = $s} and %a: f32[4] = my::op()");
}
TEST(Verify, V02AFurtherResultNamedLikeANode) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const NodeId node = e.add_node(NodeKind::kOp, "my::op");
              e.add_result(node, e.intern("c"), g.type_id(TensorId(0)));
              e.add_result(node, e.intern("a"), g.type_id(TensorId(0)));
            }),
            "V02: two things are named 'a', one of them a result of 'c'");
}
TEST(Verify, V02ANodeWithoutAName) {
  EXPECT_EQ(verdict_after([](Graph&, GraphEdit& e) { e.add_node(NodeKind::kOp, "my::op"); }),
            "V02: a node has no name");
}
TEST(Verify, V02ANameThatIsNotUtf8) {
  EXPECT_EQ(verdict_after([](Graph&, GraphEdit& e) {
              e.set_label(e.add_node(NodeKind::kOp, "my::op"), e.intern("\xff"));
            }),
            "V02: the name of a node is not UTF-8");
}

TEST(Verify, V03ATypeThatContradictsItself) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              TensorType type = f32({2, 2});
              type.strides = {1};
              e.set_type(g.find_tensor("a"), e.intern(type));
            }),
            "V03: the type of %a has 1 strides for 2 dimensions");
}
TEST(Verify, V03ATypeThatIsTooLarge) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              e.set_type(g.find_tensor("a"), e.intern(f32({1LL << 40, 1LL << 40})));
            }),
            "V03: the type of %a has more than 2^63-1 bytes");
}

TEST(Verify, V04ANegativeWorkspace) {
  EXPECT_EQ(
      verdict_after([](Graph& g, GraphEdit& e) { e.set_workspace(g.find_node("a"), Bytes{-1}); }),
      "V04: 'a' has a negative number of bytes");
}

TEST(Verify, V05AnInputThatReads) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const Operand operand{.tensor = g.find_tensor("a")};
              e.set_operands(g.find_node("x"), std::span(&operand, 1));
            }),
            "V05: 'x' is given from outside and reads nothing");
}
TEST(Verify, V05AParameterOfTwoTensors) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const NodeId node = e.add_node(NodeKind::kParam);
              e.add_result(node, e.intern("p"), g.type_id(TensorId(0)));
              e.add_result(node, e.intern("q"), g.type_id(TensorId(0)));
            }),
            "V05: 'p' is given from outside and is exactly one tensor");
}
TEST(Verify, V05AnOperationWithoutAnOperator) {
  EXPECT_EQ(verdict_after([](Graph&, GraphEdit& e) {
              e.set_label(e.add_node(NodeKind::kOp), e.intern("l"));
            }),
            "V05: 'l' has no operator");
}
TEST(Verify, V05TensorsAndAScalarAtOnce) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              e.add_scalar_result(g.find_node("b"), e.intern("t"), DType::kF64);
            }),
            "V05: 't' makes both tensors and a scalar");
}

TEST(Verify, V06ScalarArgumentsOfATensorOperation) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const Value one = 1.0;
              e.set_scalar_arguments(g.find_node("b"), std::span(&one, 1));
            }),
            "V06: 'b' has scalar arguments, but my::op is no host arithmetic");
}

TEST(Verify, V09AnUpdateOfNothing) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const Operand operand{.tensor = {}, .access = Access::kUpdate};
              e.set_operands(g.find_node("b"), std::span(&operand, 1));
            }),
            "V09: 'b' updates an absent operand");
}

TEST(Verify, V13ALineTooEarly) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              std::vector<NodeId> order(g.order().begin(), g.order().end());
              std::swap(order[2], order[3]);
              e.set_order(order);
            }),
            "V13: 'b' stands before 'a', whose result %a it reads; move it below");
}
TEST(Verify, V13AScalarTooEarly) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              std::vector<NodeId> order(g.order().begin(), g.order().end());
              std::swap(order[1], order[2]);
              e.set_order(order);
            }),
            "V13: 'a' stands before 's', whose result $s it reads; move it below");
}
TEST(Verify, V13ACycleIsPrinted) {
  EXPECT_EQ(
      verdict_after([](Graph& g, GraphEdit& e) {
        const NodeId b = g.find_node("b");
        e.set_controls(g.find_node("a"), std::span(&b, 1));
      }),
      "V13: the graph has a cycle: 'a' waits for 'b', which waits for 'a'; no order of lines can "
      "run it");
}

TEST(Verify, ReportsAllOfOneInvariantUpToTheLimit) {
  Graph graph = small_graph();
  GraphEdit edit(graph);
  for (int i = 0; i < 30; ++i)
    edit.set_label(edit.add_node(NodeKind::kOp), edit.intern("n" + std::to_string(i)));
  EXPECT_EQ(find_violations(graph, 100).size(), 30U);
  EXPECT_EQ(find_violations(graph).size(), 10U);
  EXPECT_EQ(verify(graph).error().kind, ErrorKind::kRefused);
}

TEST(Verify, InvariantsAreNumberedInOrder) {
  int number = 0;
  std::set<std::string_view> claims;
  for (const Invariant& invariant : kInvariants) {
    EXPECT_EQ(invariant.code, fmt::format("V{:02}", ++number));
    EXPECT_TRUE(claims.insert(invariant.claim).second);
  }
}

}  // namespace
}  // namespace ebb
