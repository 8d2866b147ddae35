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
              e.add_scope(ScopeKind::kBranch, e.intern("b"), ScopeId(1));
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
            "V02: a text of '\xff' is not UTF-8: its name");
}

TEST(Verify, V02AStringThatIsNotUtf8) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const Value value = Text{e.intern("\xff")};
              e.add_attribute(g.find_node("b"), e.intern("k"), false, std::span(&value, 1));
            }),
            "V02: a text of 'b' is not UTF-8: a string; bytes are kept as a Blob");
}
TEST(Verify, V02AScopeWhoseNameIsNotUtf8) {
  EXPECT_EQ(verdict_after([](Graph&, GraphEdit& e) {
              e.add_scope(ScopeKind::kBranch, e.intern("\xff"), ScopeId());
            }),
            "V02: a scope's name, '\xff', is not UTF-8");
}
TEST(Verify, V02AFurtherResultWithoutAGoodName) {
  for (const auto& [name, what] : {std::pair{"\xff", "not UTF-8"}, {"", "empty"}}) {
    EXPECT_EQ(verdict_after([name = name](Graph& g, GraphEdit& e) {
                const NodeId node = e.add_node(NodeKind::kOp, "my::op");
                e.add_result(node, e.intern("c"), g.type_id(TensorId(0)));
                e.add_result(node, e.intern(name), g.type_id(TensorId(0)));
              }),
              std::string("V02: the name of a tensor is ") + what);
  }
}

TEST(Verify, V03ATypeThatContradictsItself) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              TensorType type = f32({2, 2});
              type.strides = {1};
              e.set_type(g.find_tensor("a"), e.intern(type));
            }),
            "V03: the type of %a has 1 strides for 2 dimensions");
}
TEST(Verify, V03ATypeThatWasMadeBeforeThoseOfTensorsAbove) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              TensorType type = f32({2, 2});
              type.strides = {1};
              const TypeId bad = e.intern(type);
              e.set_type(TensorId(0), e.intern(f32({5})));
              e.set_type(g.find_tensor("a"), bad);
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
TEST(Verify, V05AnInputWithArguments) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const Value value = 1.0;
              e.set_scalar_arguments(g.find_node("x"), std::span(&value, 1));
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

TEST(Verify, V06HostArithmeticThatReadsATensor) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const NodeId node = e.add_node(NodeKind::kOp, "scalar::neg");
              const Value one = 1.0;
              e.set_scalar_arguments(node, std::span(&one, 1));
              const Operand operand{.tensor = g.find_tensor("a")};
              e.set_operands(node, std::span(&operand, 1));
              e.add_scalar_result(node, e.intern("n"), DType::kF64);
            }),
            "V06: 'n': scalar::neg makes a scalar from scalars, no tensors");
}

TEST(Verify, V08AViewThatBeginsBeforeItsBytes) {
  EXPECT_EQ(verdict_after([](Graph& g, GraphEdit& e) {
              const NodeId node = e.add_node(NodeKind::kOp, "my::view");
              const Operand operand{.tensor = g.find_tensor("a")};
              e.set_operands(node, std::span(&operand, 1));
              e.add_shared_result(node, e.intern("v"), e.intern(f32({1})), g.find_tensor("a"),
                                  Bytes{-4});
            }),
            "V08: %v spans bytes -4 to 0 of %a, which has 16");
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

Graph updated_graph() {
  return parse_valid(R"(graph g {
  param %w: f32[4]
  %w.1: f32[4] ~ %w = my::add_(%w!)
  %v: f32[2] ~ %w = my::view(%w.1)
  %r: f32[2] = my::op(%v)
  %w.2: f32[4] ~ %w = my::add_(%w.1!)
  return %w.2
}
)")
      .value();
}

TEST(Verify, V14AViewRewiredToAnOlderVersion) {
  Graph graph = updated_graph();
  GraphEdit edit(graph);
  edit.set_operand(graph.find_node("v"), 0, graph.find_tensor("w"));
  EXPECT_EQ(verify(graph).error().message,
            "%v is kept as version 1 of %w, but by the operands of 'v' it is version 0");
  edit.renumber_versions();
  EXPECT_EQ(verify(graph).error().code, "V16") << "now the view is read after the update";
  std::vector<NodeId> order;
  for (const char* name : {"w", "v", "r", "w.1", "w.2"}) order.push_back(graph.find_node(name));
  edit.set_order(order);
  EXPECT_TRUE(verify(graph)) << verify(graph).error().message;
}

TEST(Verify, V14AnUpdateInsertedBetweenTwo) {
  Graph graph = updated_graph();
  GraphEdit edit(graph);
  const NodeId middle = edit.add_node(NodeKind::kOp, "my::mul_");
  const TensorId w1 = graph.find_tensor("w.1");
  const Operand operand{.tensor = w1, .access = Access::kUpdate};
  edit.set_operands(middle, std::span(&operand, 1));
  const TensorId made =
      edit.add_shared_result(middle, edit.intern("w.1.1"), graph.type_id(w1), w1, Bytes{});
  edit.set_operand(graph.find_node("w.2"), 0, made);
  std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  edit.set_order(order);
  EXPECT_EQ(verify(graph).error().code, "V14");
  edit.renumber_versions();
  EXPECT_TRUE(verify(graph)) << verify(graph).error().message;
  EXPECT_EQ(graph.version(graph.find_tensor("w.2")), 3U);
}

TEST(Verify, V05OperandListsThatAreBroken) {
  const auto with_operand = [](Operand operand) {
    return verdict_after(
        [=](Graph& g, GraphEdit& e) { e.set_operands(g.find_node("b"), std::span(&operand, 1)); });
  };
  EXPECT_EQ(with_operand({.tensor = {}, .position = Operand::Position::kListNext}),
            "V05: the operand lists of 'b' are broken: a list goes on that never began");
  EXPECT_EQ(with_operand({.tensor = TensorId(0), .position = Operand::Position::kEmptyList}),
            "V05: the operand lists of 'b' are broken: an empty list has a tensor");
}

TEST(Verify, V01ATypeOutOfRange) {
  EXPECT_EQ(
      verdict_after([](Graph& g, GraphEdit& e) { e.set_type(g.find_tensor("a"), TypeId(9)); }),
      "V01: %a has type number 9, of 1");
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
