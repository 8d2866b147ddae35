#include "ebb/graph/builder.h"

#include <gtest/gtest.h>

#include "ebb/graph/graph_check.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"

namespace ebb {
namespace {

using std::chrono::microseconds;

TEST(Builder, WritesTheSampleStep) {
  GraphBuilder b("step");
  const TensorId x = b.input("x", f32({32, 784}));
  const TensorId w = b.param("w", f32({784, 256}));
  const ScalarId lr = b.scalar("lr");
  const TensorId h = b.op("aten::mm", {x, w}).takes(microseconds(40)).makes("h", f32({32, 256}));
  const TensorId gw =
      b.op("aten::mm_tn", {x, h}).workspace(Bytes{1 << 20}).makes("gw", f32({784, 256}));
  const TensorId w1 =
      b.op("aten::add_", {update(w), gw}).attr("alpha", lr).after(h).makes_next("w.1", w);
  b.returns({w1});
  const auto graph = b.build();
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(print(*graph), R"(graph step {
  input %x: f32[32,784]
  param %w: f32[784,256]
  scalar $lr: f64
  %h: f32[32,256] = aten::mm(%x, %w) takes 40us
  %gw: f32[784,256] = aten::mm_tn(%x, %h) workspace 1MiB
  %w.1: f32[784,256] ~ %w = aten::add_(%w!, %gw) {alpha = $lr} after h
  return %w.1
}
)");
}

TEST(Builder, KnowsEveryConstruct) {
  GraphBuilder b("all");
  const ScopeId loop = b.frame("loop");
  const ScopeId then = b.branch("then", loop);
  const TensorId x = b.input("x", f32({4, 8}));
  const TensorId c = b.constant("c", on_host(f32({4})));
  const ScalarId s = b.scalar("s", DType::kI64);
  const ScalarId t = b.scalar_op("scalar::sub", {1.0, s}).makes_scalar("t");
  auto op = b.op("my::op", {list_of({x, absent()}), list_of({}), absent(), c});
  op.attr("i", 3).attr("text", "words").attr("bytes", std::string("\xff", 1));
  op.attr("list", std::vector<BuilderValue>{true, DType::kF16, t}).random().on("cuda:1").in(loop);
  const TensorId a = op.makes("a", f32({4}));
  op.makes("b", tensor_type(DType::kBool, {2}));
  const TensorId v = b.op("aten::t", {x}).in(then).makes_view("v", f32({2}), x, Bytes{8});
  b.op("my::print", {v}).effect().named("print");
  const TensorId again =
      b.op("aten::t", {x}).clone_of(b.graph().producer(v)).makes("v.again", f32({2}));
  b.returns({a, again});
  const auto graph = b.build();
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(print(*graph), R"(graph all {
  frame loop
  branch then in loop
  input %x: f32[4,8]
  const %c: f32[4] @host
  scalar $s: i64
  $t: f64 = scalar::sub(1.0, $s)
  %a: f32[4], %b: bool[2] = my::op([%x, none], [], none, %c) {i = 3, text = "words", bytes = hex"ff", list = [true, f16, $t]} random in loop @"cuda:1"
  %v: f32[2] ~ %x + 8B = aten::t(%x) in then
  print: my::print(%v) effect
  %v.again: f32[2] = aten::t(%x) clone of v
  return %a, %v.again
}
)");
}

TEST(Builder, KeepsTheKindOfEveryAttributeValue) {
  GraphBuilder b("g");
  b.op("my::op", {})
      .attr("int", 3)
      .attr("long", std::int64_t{1} << 40)
      .attr("double", 0.9)
      .attr("bool", true)
      .attr("text", "words")
      .attr("list", {1, 2.5, false, "a"})
      .named("n");
  const auto graph = b.build();
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(
      print(*graph, graph->find_node("n")),
      R"(n: my::op() {int = 3, long = 1099511627776, double = 0.9, bool = true, text = "words", list = [1, 2.5, false, "a"]})");
}

TEST(Builder, TellsOfTheFirstMistakeAtTheEnd) {
  GraphBuilder b("g");
  const TensorId x = b.input("x", f32({4}));
  b.op("my::op", {x}).makes("x", f32({4}));
  b.op("my::op", {x}).makes("y", f32({-4}));
  const auto graph = b.build();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message, "'x' is defined twice");
}

TEST(Builder, RefusesWrongTypesAndForeignTensors) {
  {
    GraphBuilder b("g");
    b.input("x", f32({1LL << 40, 1LL << 40}));
    EXPECT_EQ(b.build().error().message, "the type of %x has more than 2^63-1 bytes");
  }
  {
    GraphBuilder b("g");
    b.op("my::op", {TensorId(7)}).makes_next("y", TensorId(9));
    EXPECT_EQ(b.build().error().message, "a tensor that is not of this graph is used");
  }
}

TEST(Builder, RefusesWhatTheTextFormCannotSay) {
  const auto error_of = [](auto make) {
    GraphBuilder b("g");
    make(b);
    const auto graph = b.build();
    return graph ? "none; it prints as\n" + print(*graph) : graph.error().message;
  };
  EXPECT_EQ(error_of([](GraphBuilder& b) { b.op("\xff", {}).named("n"); }),
            "a text of 'n' is not UTF-8: its operator");
  EXPECT_EQ(error_of([](GraphBuilder& b) { b.op("f", {}).on("\xff").named("n"); }),
            "a text of 'n' is not UTF-8: its device");
  EXPECT_EQ(error_of([](GraphBuilder& b) { b.op("f", {}).attr("\xff", 1).named("n"); }),
            "a text of 'n' is not UTF-8: an attribute's name");
  EXPECT_EQ(error_of([](GraphBuilder& b) { b.op("f", {}).attr("", 1).named("n"); }),
            "an attribute of 'n' has no name");
  EXPECT_EQ(error_of([](GraphBuilder& b) { b.op("f", {}).attr("k", 1).attr("k", 2).named("n"); }),
            "'n' has the attribute 'k' twice");
  EXPECT_EQ(error_of([](GraphBuilder& b) { b.frame(""); }), "a scope's name, '', is empty");
  EXPECT_EQ(error_of([](GraphBuilder& b) {
              b.frame("f");
              b.branch("f");
            }),
            "a scope's name, 'f', is another scope's too");
  EXPECT_EQ(error_of([](GraphBuilder& b) { b.scalar("s", DType::kF32); }),
            "$s is f32; a scalar is f64, i64 or bool");
  EXPECT_EQ(error_of([](GraphBuilder& b) {
              OpBuilder op = b.op("f", {});
              op.makes("a", f32({4}));
              op.named("label");
            }),
            "a node is named 'label', but its first result 'a'");
  EXPECT_EQ(error_of([](GraphBuilder& b) {
              OpBuilder op = b.op("f", {});
              op.makes_scalar("a");
              op.makes_scalar("b");
            }),
            "'b' makes more than one scalar");
  EXPECT_EQ(GraphBuilder("").build().error().message, "the graph's name is empty");
  EXPECT_EQ(GraphBuilder("\xff").build().error().message, "the graph's name is not UTF-8");
}

TEST(Builder, RefusesResultsOutOfTurn) {
  GraphBuilder b("g");
  OpBuilder first = b.op("f", {});
  first.makes("a", f32({4}));
  b.op("f", {}).makes("b", f32({4}));
  first.makes("c", f32({4}));
  EXPECT_EQ(b.build().error().message,
            "'a' makes a further result after another operation made its own");
}

TEST(Builder, RefusesANextVersionOfWhatIsNotUpdated) {
  GraphBuilder b("g");
  const TensorId w = b.param("w", f32({4}));
  b.op("f", {w}).makes_next("w.1", w);
  EXPECT_EQ(b.build().error().message,
            "%w.1 is to be the next version of %w, which its operation does not update; say "
            "update(...)");
}

TEST(Builder, RefusesNegativeTimes) {
  GraphBuilder b("g");
  b.op("f", {}).takes(Duration(-1)).named("n");
  EXPECT_EQ(b.build().error().message, "an operation takes less than no time");
}

TEST(Builder, DeclaresParametersInsideOthers) {
  GraphBuilder b("g");
  const TensorId flat = b.param("flat", f32({64}));
  b.param_view("w", f32({16}), flat, Bytes{128});
  const auto graph = b.build();
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(print(*graph, graph->find_node("w")), "param %w: f32[16] ~ %flat + 128B");
}

TEST(Builder, AddsControlsOneByOneInLinearTime) {
  GraphBuilder b("g");
  constexpr int kCount = 100'000;
  std::vector<NodeId> nodes;
  nodes.reserve(kCount);
  for (int i = 0; i < kCount; ++i) nodes.push_back(b.op("f", {}).named("n" + std::to_string(i)));
  OpBuilder group = b.op("f", {});
  for (const NodeId node : nodes) group.after(node);
  const NodeId all = group.named("all");
  const auto graph = b.build();
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->controls(all).size(), nodes.size());
}

TEST(Builder, HasTheVerifierLookAtTheWhole) {
  GraphBuilder b("g");
  const TensorId w = b.param("w", f32({4}));
  b.op("aten::zero_", {update(w)}).makes_next("w.1", w);
  b.op("aten::relu", {w}).makes("y", f32({4}));
  const auto graph = b.build();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, "V16");
}

TEST(Graph, IsAValue) {
  const auto graph =
      parse_valid("graph g {\n  input %x: f32[4]\n  %a: f32[4] = my::op(%x)\n  return %a\n}\n");
  ASSERT_TRUE(graph);
  Graph copy = *graph;
  GraphEdit edit(copy);
  edit.set_workspace(copy.find_node("a"), Bytes{64});
  EXPECT_EQ(graph->workspace(graph->find_node("a")), Bytes{0});
  EXPECT_EQ(copy.workspace(graph->find_node("a")), Bytes{64}) << "ids mean the same in the copy";
}

TEST(Graph, AMistakeOfOursCarriesTheGraph) {
  Graph graph = parse_valid("graph g {\n  %a: f32[4] = my::op()\n  return\n}\n").value();
  GraphEdit edit(graph);
  try {
    edit.set_operand(graph.find_node("a"), 3, TensorId(0));
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("'a' has no operand 3"), std::string::npos);
    EXPECT_EQ(error.dump(), print(graph));
  }
  const TensorId nothing(99);
  edit.set_outputs(std::span(&nothing, 1));
  EXPECT_EQ(dump(graph),
            "# graph 'g' cannot be printed: the graph returns tensor number 99, of 1\n");
}

TEST(Graph, FindsByNameWhatIsOfThatKind) {
  const auto graph = parse_valid(
      "graph g {\n  scalar $s: f64\n  %a: f32[4], %b: f32[4] = my::op()\n  l: my::op()\n  "
      "return\n}\n");
  ASSERT_TRUE(graph);
  EXPECT_TRUE(graph->find_scalar("s").valid());
  EXPECT_TRUE(graph->find_node("s").valid());
  EXPECT_FALSE(graph->find_tensor("s").valid());
  EXPECT_EQ(graph->producer(graph->find_tensor("b")), graph->find_node("a"));
  EXPECT_FALSE(graph->find_node("b").valid());
  EXPECT_TRUE(graph->find_node("l").valid());
  EXPECT_FALSE(graph->find_node("nothing").valid());
}

}  // namespace
}  // namespace ebb
