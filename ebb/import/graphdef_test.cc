#include "ebb/import/graphdef.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/print.h"
#include "ebb/import/graphdef_for_tests.h"

namespace ebb {
namespace {

using namespace for_tests;  // NOLINT(google-build-using-namespace): what the tests are written in
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph read(const std::vector<std::string>& nodes, const GraphDefOptions& options = {}) {
  auto graph = import_graphdef(graphdef(nodes), options);
  EXPECT_TRUE(graph) << graph.error().code << ": " << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}

std::string refusal_of_bytes(const std::string& bytes, const GraphDefOptions& options = {}) {
  const auto graph = import_graphdef(bytes, options);
  if (graph) return "accepted";
  return graph.error().code + ": " + graph.error().message;
}
std::string refusal(const std::vector<std::string>& nodes) {
  return refusal_of_bytes(graphdef(nodes));
}

std::vector<std::string> lines(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId node : graph.order()) names.emplace_back(graph.name(node));
  return names;
}

Residence residence(const Graph& graph, std::string_view tensor) {
  return graph.type(graph.find_tensor(tensor)).residence;
}

// Errors.

TEST(GraphDefErrors, ForeignAndTruncatedBytesAreNoGraph) {
  EXPECT_THAT(refusal_of_bytes(std::string("\x7f\x45LF is no protobuf")), HasSubstr("G01"));
  const std::string bytes = graphdef({placeholder("x"), unary("y", "Relu", "x")});
  EXPECT_THAT(refusal_of_bytes(bytes.substr(0, bytes.size() - 3)), HasSubstr("G01"));
  EXPECT_THAT(refusal_of_bytes(graphdef({placeholder("x"), "\x0a\x05"})),
              HasSubstr("G01: node 1 of the graph is no NodeDef, from byte"));
}

TEST(GraphDefErrors, DamagedAttributesThatAreNeededNameTheNode) {
  EXPECT_THAT(refusal({node("x", "Placeholder", {}, {{"dtype", "\x0a"}})}),
              HasSubstr("G01: node 'x' has a damaged attribute"));
  EXPECT_THAT(refusal({placeholder("x"),
                       node("e", "Enter", {"x"}, {{"T", type_of(1)}, {"frame_name", "\x12"}})}),
              HasSubstr("node 'e' has a damaged attribute"));
}

TEST(GraphDefErrors, NodesNeedNamesAndOperators) {
  EXPECT_THAT(refusal(std::vector{node("", "Relu")}), HasSubstr("G02: node 0 has no name"));
  EXPECT_THAT(refusal(std::vector{node("a:0", "Relu")}), HasSubstr("G02: 'a:0' is no name"));
  EXPECT_THAT(refusal(std::vector{node("^a", "Relu")}), HasSubstr("G02: '^a' is no name"));
  EXPECT_THAT(refusal(std::vector{node("\xff", "Relu")}), HasSubstr("G02"));
  EXPECT_THAT(refusal(std::vector{node("a", "")}), HasSubstr("G02: node 'a' has no operator"));
}

TEST(GraphDefErrors, NobodyWritesIntoWhatOthersRead) {
  EXPECT_THAT(refusal({placeholder("x"),
                       node("y", "_ParallelConcatUpdate", {"x", "x"}, {{"T", type_of(1)}})}),
              HasSubstr("G13: node 'y' (_ParallelConcatUpdate) writes into a tensor"));
}

TEST(GraphDefErrors, NamesDiffer) {
  EXPECT_THAT(refusal({placeholder("x"), placeholder("x")}),
              HasSubstr("G03: two nodes are called 'x'"));
}

TEST(GraphDefErrors, InputsExist) {
  EXPECT_THAT(refusal({placeholder("weights"), unary("y", "Relu", "weight")}),
              HasSubstr("G04: node 'y' reads 'weight', which is not in the graph; did you mean"));
  EXPECT_THAT(refusal({placeholder("x"), unary("y", "Relu", "x:1")}),
              HasSubstr("G04: node 'y' reads 'x:1', and 'x' makes 1 tensors"));
  EXPECT_THAT(refusal({placeholder("x"), unary("y", "Relu", "x:-1")}), HasSubstr("G04: node 'y'"));
  EXPECT_THAT(refusal({placeholder("x"), unary("y", "Relu", "x:99999999999")}), HasSubstr("G04"));
  EXPECT_THAT(refusal({placeholder("x"), unary("y", "Relu", "")}), HasSubstr("G04"));
  EXPECT_THAT(refusal({placeholder("x"), binary("y", "AddV2", {"x", "^x", "x"})}),
              HasSubstr("G04: node 'y' has the input 'x' behind a control input"));
}

TEST(GraphDefErrors, CyclesArePrinted) {
  EXPECT_THAT(refusal({unary("a", "Relu", "b"), unary("b", "Relu", "a")}),
              HasSubstr("G05: these nodes wait for each other: 'a', 'b'"));
  EXPECT_THAT(refusal({unary("a", "Relu", "a")}), HasSubstr("G05"));
  EXPECT_THAT(
      refusal({placeholder("x"), binary("a", "Relu", {"x", "^b"}), unary("b", "Relu", "a")}),
      HasSubstr("G05"));
}

TEST(GraphDefErrors, AttributesThatSayHowManyAreNeeded) {
  EXPECT_THAT(refusal({placeholder("x"), node("y", "Relu", {"x"})}),
              HasSubstr("G07: node 'y' lacks the attribute T"));
  EXPECT_THAT(refusal({placeholder("x"), node("y", "Relu", {"x"}, {{"T", text_of("float")}})}),
              HasSubstr("G07: node 'y': the attribute T is neither a number nor a type"));
  EXPECT_THAT(refusal({placeholder("x"), node("y", "Unpack", {"x"},
                                              {{"T", type_of(1)}, {"num", number_of(1LL << 40)}})}),
              HasSubstr("G07: node 'y': num = 1099511627776 is no number of tensors"));
  EXPECT_THAT(refusal({placeholder("x"),
                       node("y", "Unpack", {"x"}, {{"T", type_of(1)}, {"num", number_of(-1)}})}),
              HasSubstr("G07"));
}

TEST(GraphDefErrors, SmallFilesDoNotAskForHugeGraphs) {
  std::vector<std::string> nodes = {placeholder("x")};
  for (int i = 0; i < 4; ++i) {
    nodes.push_back(node("y" + std::to_string(i), "Unpack", {"x"},
                         {{"T", type_of(1)}, {"num", number_of(1 << 19)}}));
  }
  EXPECT_THAT(refusal(nodes), HasSubstr("G07: up to node 'y2' there are"));
}

TEST(GraphDefErrors, SizesThatNoMemoryHoldsAreRefused) {
  EXPECT_THAT(refusal({node("x", "Placeholder", {},
                            {{"dtype", type_of(1)},
                             {"_output_shapes", shapes_of({{1LL << 40, 1LL << 40}})}})}),
              HasSubstr("G07: node 'x' makes"));
}

TEST(GraphDefErrors, OperandsAreAsManyAsTheOperatorTakes) {
  EXPECT_THAT(refusal({placeholder("x"), binary("y", "Relu", {"x", "x"})}),
              HasSubstr("G09: node 'y' has 2 inputs, and Relu takes 1"));
  EXPECT_THAT(refusal({placeholder("x"),
                       node("y", "AddN", {"x"}, {{"T", type_of(1)}, {"N", number_of(2)}})}),
              HasSubstr("G09: node 'y' has 1 inputs, and AddN takes 2"));
}

TEST(GraphDefErrors, ADeviceThatIsNoneIsAUsageError) {
  GraphDefOptions options;
  options.devices.accelerator = "gpu zero";
  const auto graph = import_graphdef(graphdef({placeholder("x")}), options);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().kind, ErrorKind::kUsage);
}

// Order.

TEST(GraphDefOrder, IsTheFilesWhereThatRuns) {
  const Graph graph =
      read({placeholder("b"), placeholder("a"), unary("z", "Relu", "b"), unary("c", "Relu", "a")});
  EXPECT_THAT(lines(graph), ElementsAre("b", "a", "z", "c"));
  EXPECT_EQ(graph.find_attribute(graph.find_node("z"), "note.position"), nullptr);
}

TEST(GraphDefOrder, IsTheNearestThatRunsOtherwise) {
  const Graph graph =
      read({unary("z", "Relu", "b"), placeholder("a"), placeholder("b"), unary("c", "Relu", "a")});
  EXPECT_THAT(lines(graph), ElementsAre("a", "b", "z", "c"));
}

// What nodes become.

TEST(GraphDefNodes, DeclarationsHaveTheirKind) {
  const Graph graph = read({placeholder("x"), node("w", "VarHandleOp", {}, {{"dtype", type_of(1)}}),
                            node("r", "VariableV2", {}, {{"dtype", type_of(1)}}),
                            node("c", "Const", {}, {{"dtype", type_of(1)}}),
                            node("h", "Placeholder", {}, {{"dtype", type_of(20)}}),
                            node("late", "Const", {"^x"}, {{"dtype", type_of(1)}}),
                            node("arg", "_Arg", {}, {{"T", type_of(20)}})});
  const auto kind = [&](std::string_view name) { return graph.kind(graph.find_node(name)); };
  EXPECT_EQ(kind("x"), NodeKind::kInput);
  EXPECT_EQ(kind("w"), NodeKind::kParam);
  EXPECT_EQ(kind("r"), NodeKind::kParam);
  EXPECT_EQ(kind("c"), NodeKind::kConst);
  EXPECT_EQ(kind("h"), NodeKind::kParam);
  EXPECT_EQ(kind("arg"), NodeKind::kParam);
  EXPECT_EQ(kind("late"), NodeKind::kOp);
}

TEST(GraphDefNodes, ReferencesAndResourcesAreHandlesAndWhatWorksOnThemHasAnEffect) {
  const Graph graph =
      read({placeholder("x"), node("r", "VariableV2", {}, {{"dtype", type_of(1)}}),
            node("set", "Assign", {"r", "x"}, {{"T", type_of(1)}}), unary("get", "Identity", "r"),
            node("w", "VarHandleOp", {}, {{"dtype", type_of(1)}}),
            node("read", "ReadVariableOp", {"w"}, {{"dtype", type_of(1)}}),
            node("put", "AssignVariableOp", {"w", "x"}, {{"dtype", type_of(1)}})});
  const auto dtype = [&](std::string_view name) {
    return graph.type(graph.find_tensor(name)).dtype;
  };
  const auto effect = [&](std::string_view name) { return graph.effect(graph.find_node(name)); };
  EXPECT_EQ(dtype("r"), DType::kResource);
  EXPECT_EQ(dtype("set"), DType::kResource);
  EXPECT_EQ(dtype("get"), DType::kF32);
  EXPECT_EQ(dtype("w"), DType::kResource);
  EXPECT_EQ(effect("set"), Effect::kEffect);
  EXPECT_EQ(effect("get"), Effect::kPure);
  EXPECT_EQ(effect("read"), Effect::kEffect);
  EXPECT_EQ(effect("put"), Effect::kEffect);
  // A reference read is no view of the handle.
  EXPECT_NE(graph.storage(graph.find_tensor("get")), graph.storage(graph.find_tensor("r")));
}

TEST(GraphDefNodes, RandomOnesAreRandomAndOnesNobodyKnowsHaveEffects) {
  const Graph graph =
      read({placeholder("shape", kInt32),
            node("u", "RandomUniform", {"shape"}, {{"T", type_of(3)}, {"dtype", type_of(1)}}),
            node("own", "MyOp", {"u"}), unary("y", "Relu", "own:2")});
  EXPECT_EQ(graph.effect(graph.find_node("u")), Effect::kRandom);
  EXPECT_EQ(graph.effect(graph.find_node("own")), Effect::kEffect);
  EXPECT_EQ(graph.results(graph.find_node("own")).size(), 3U);
  EXPECT_EQ(graph.type(graph.find_tensor("own:1")).dtype, DType::kVariant);
  EXPECT_EQ(residence(graph, "own"), Residence::kHost);
}

TEST(GraphDefNodes, AnOpDefTellsWhatACustomOperatorIs) {
  std::string op_def;
  protozero::pbf_writer writer(op_def);
  writer.add_string(1, "MyOp");
  for (const protozero::pbf_tag_type tag : {2U, 3U}) {
    protozero::pbf_writer arg(writer, tag);
    arg.add_string(1, "t");
    arg.add_enum(3, 1);
  }
  int asked = 0;
  GraphDefOptions options;
  options.op_def = [&](std::string_view op) -> std::optional<std::string> {
    EXPECT_EQ(op, "MyOp");
    ++asked;
    return op_def;
  };
  const Graph graph =
      read({placeholder("x"), node("a", "MyOp", {"x"}), node("b", "MyOp", {"a"})}, options);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(graph.effect(graph.find_node("a")), Effect::kPure);
  EXPECT_EQ(graph.type(graph.find_tensor("a")).dtype, DType::kF32);
  EXPECT_EQ(residence(graph, "a"), Residence::kDevice);
  EXPECT_THAT(refusal_of_bytes(graphdef({node("a", "MyOp")}), options), HasSubstr("G09"));
}

TEST(GraphDefNodes, ShapesComeFromTheFileOrFromWhoIsAsked) {
  GraphDefOptions options;
  options.shape_of = [](std::string_view node, int output) -> std::optional<TensorType> {
    if (node != "y" || output != 0) return std::nullopt;
    TensorType type;
    type.dims = {5, 6};
    return type;
  };
  const Graph graph = read({node("x", "Placeholder", {},
                                 {{"dtype", type_of(1)}, {"_output_shapes", shapes_of({{2, -1}})}}),
                            unary("y", "Relu", "x"), unary("z", "Relu", "y")},
                           options);
  EXPECT_EQ(to_text(graph.type(graph.find_tensor("x"))), "f32[2,?]");
  EXPECT_EQ(to_text(graph.type(graph.find_tensor("y"))), "f32[5,6]");
  EXPECT_EQ(to_text(graph.type(graph.find_tensor("z"))), "f32[*]");
}

// Where results lie.

TEST(GraphDefResidence, FollowsDeviceAndKernel) {
  const auto add = [](std::string_view name, int type, std::string_view device) {
    const std::string x = type == kInt32 ? "i" : "x";
    return node(name, "AddV2", {x, x}, {{"T", type_of(type)}}, device);
  };
  const Graph graph = read(
      {placeholder("x"), placeholder("i", kInt32), add("plain", kFloat, ""),
       add("gpu", kFloat, "/gpu:0"), add("far", kFloat, "/job:a/replica:0/task:1/device:GPU:1"),
       add("task", kFloat, "/job:a/task:1"), add("cpu", kFloat, "/device:CPU:0"),
       add("number", kInt32, "/gpu:0"),
       node("shape", "Shape", {"x"}, {{"T", type_of(1)}}, "/gpu:0"),
       node("merge", "Merge", {"x", "plain"}, {{"N", number_of(2)}, {"T", type_of(1)}}),
       node("sum", "AccumulateNV2", {"x"}, {{"N", number_of(1)}, {"T", type_of(1)}})});
  for (const std::string_view name : {"plain", "gpu", "far", "task", "merge"}) {
    EXPECT_EQ(residence(graph, name), Residence::kDevice) << name;
  }
  for (const std::string_view name : {"cpu", "number", "shape", "merge:1", "sum"}) {
    EXPECT_EQ(residence(graph, name), Residence::kHost) << name;
  }
}

TEST(GraphDefResidence, OnlyDevicesOfThePatternAreAccelerators) {
  const auto on = [](std::string_view name, std::string_view device) {
    return node(name, "Relu", {"x"}, {{"T", type_of(1)}}, device);
  };
  const std::vector<std::string> nodes = {placeholder("x"), on("zero", "/gpu:0"),
                                          on("one", "/job:w/task:0/device:GPU:1"),
                                          on("cpu", "/cpu:1")};
  GraphDefOptions options;
  options.devices.accelerator = "/device:GPU:1";
  const Graph one = read(nodes, options);
  EXPECT_EQ(residence(one, "zero"), Residence::kHost);
  EXPECT_EQ(residence(one, "one"), Residence::kDevice);
  options.devices.accelerator = "/device:CPU:1";
  const Graph cpu = read(nodes, options);
  EXPECT_EQ(residence(cpu, "one"), Residence::kHost);
  EXPECT_EQ(residence(cpu, "cpu"), Residence::kDevice);
}

// Views.

TEST(GraphDefViews, ShareTheBytesOnOneSideOfOneDevice) {
  const auto identity = [](std::string_view name, std::string_view input, std::string_view device) {
    return node(name, "Identity", {std::string(input)}, {{"T", type_of(1)}}, device);
  };
  const Graph graph = read({placeholder("i", kInt32), placeholder("p"),
                            node("x", "Relu", {"p"}, {{"T", type_of(1)}}, "/gpu:0"),
                            identity("same", "x", "/gpu:0"), identity("again", "same", "/gpu:0"),
                            identity("other", "x", "/gpu:1"), identity("host", "x", "/cpu:0"),
                            node("flat", "Reshape", {"x", "i"}, {{"T", type_of(1)}}, "/gpu:0"),
                            node("relu", "Relu", {"x"}, {{"T", type_of(1)}}, "/gpu:0")});
  const auto shares = [&](std::string_view name) {
    return graph.storage(graph.find_tensor(name)) == graph.storage(graph.find_tensor("x"));
  };
  EXPECT_TRUE(shares("same"));
  EXPECT_TRUE(shares("again"));
  EXPECT_TRUE(shares("flat"));
  EXPECT_FALSE(shares("other"));
  EXPECT_FALSE(shares("host"));
  EXPECT_FALSE(shares("relu"));
}

TEST(GraphDefViews, EachResultSharesWithItsOperand) {
  const Graph graph = read({placeholder("a"), placeholder("b"),
                            node("n", "IdentityN", {"a", "b"}, {{"T", types_of({1, 1})}})});
  EXPECT_EQ(graph.storage(graph.find_tensor("n")), graph.storage(graph.find_tensor("a")));
  EXPECT_EQ(graph.storage(graph.find_tensor("n:1")), graph.storage(graph.find_tensor("b")));
}

// Wires.

TEST(GraphDefWires, WhatNobodyReadsIsReturned) {
  const Graph graph = read({placeholder("x"), unary("a", "Relu", "x"), unary("b", "Relu", "a"),
                            unary("c", "Relu", "x"), node("done", "NoOp", {"^b"})});
  std::vector<std::string> outputs;
  for (const TensorId each : graph.outputs()) outputs.emplace_back(graph.name(each));
  EXPECT_THAT(outputs, ElementsAre("b", "c"));
}

TEST(GraphDefWires, ManyEdgesAndAttributesOnOneNodeAreRead) {
  constexpr int kMany = 20000;
  std::vector<std::string> nodes;
  std::vector<std::string> inputs;
  Attributes attributes = {{"T", type_of(1)}, {"N", number_of(kMany)}};
  for (int i = 0; i < kMany; ++i) {
    nodes.push_back(placeholder("x" + std::to_string(i)));
    inputs.push_back("x" + std::to_string(i));
    attributes.emplace_back("_a" + std::to_string(i), number_of(i));
  }
  for (int i = 0; i < kMany; ++i) inputs.push_back("^x" + std::to_string(i));
  nodes.push_back(node("sum", "AddN", inputs, attributes));
  const Graph graph = read(nodes);
  const NodeId sum = graph.find_node("sum");
  EXPECT_EQ(graph.operands(sum).size(), std::size_t{kMany});
  EXPECT_EQ(graph.controls(sum).size(), std::size_t{kMany});
  EXPECT_EQ(graph.attributes(sum).size(), std::size_t{kMany + 2});
}

TEST(GraphDefWires, OfTwoAttributesOfOneNameTheLastCounts) {
  const Graph graph = read(
      {placeholder("i", kInt32), node("y", "Abs", {"i"}, {{"T", type_of(1)}, {"T", type_of(3)}})});
  EXPECT_EQ(graph.type(graph.find_tensor("y")).dtype, DType::kI32);
}

TEST(GraphDefWires, FieldsOfAnotherWireTypeAreNotOurs) {
  std::string y = unary("y", "Relu", "x");
  protozero::pbf_writer writer(y);
  writer.add_int64(1, 7);
  writer.add_fixed32(3, 7);
  writer.add_fixed64(5, 7);
  const Graph graph = read({placeholder("x"), y});
  EXPECT_EQ(graph.operands(graph.find_node("y")).size(), 1U);
  EXPECT_NE(graph.find_attribute(graph.find_node("y"), "tf.rest"), nullptr);
}

}  // namespace
}  // namespace ebb
