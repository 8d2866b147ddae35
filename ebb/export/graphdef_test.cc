#include "ebb/export/graphdef.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"
#include "ebb/import/graphdef_attributes.h"
#include "ebb/import/graphdef_for_tests.h"
#include "ebb/rewrite/lms_rewrite.h"

namespace ebb {
namespace {

using namespace for_tests;  // NOLINT(google-build-using-namespace): what the tests are written in
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph read(const std::string& bytes) {
  auto graph = import_graphdef(bytes);
  EXPECT_TRUE(graph) << graph.error().code << ": " << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}

std::string written(const Graph& graph, const GraphDefExport& options = {}) {
  auto bytes = export_graphdef(graph, options);
  EXPECT_TRUE(bytes) << bytes.error().code << ": " << bytes.error().message;
  return bytes.value_or("");
}

// The same bytes come out, directly and by way of the text form.
void expect_kept(const std::string& bytes) {
  const Graph graph = read(bytes);
  EXPECT_EQ(written(graph), bytes);
  const std::string text = print(graph);
  const auto again = parse_valid(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(print(*again), text);
  EXPECT_EQ(written(*again), bytes);
}
void expect_kept(const std::vector<std::string>& nodes) { expect_kept(graphdef(nodes)); }

std::string field(protozero::pbf_tag_type tag, std::string_view content) {
  std::string out;
  protozero::pbf_writer(out).add_bytes(tag, content.data(), content.size());
  return out;
}
std::string number_field(protozero::pbf_tag_type tag, std::int64_t number) {
  std::string out;
  protozero::pbf_writer(out).add_int64(tag, number);
  return out;
}
std::string entry(std::string_view key, std::string_view value) {
  return field(5, field(1, key) + field(2, value));
}

// What every graph here reads.
std::string input() { return placeholder("x"); }

TEST(GraphDefBytes, PlainNodesAreKeptWithoutNotes) {
  const std::string bytes = graphdef({input(), unary("y", "Relu", "x"), node("n", "NoOp", {"^y"})});
  expect_kept(bytes);
  EXPECT_THAT(print(read(bytes)), ::testing::Not(HasSubstr("note.")));
}

TEST(GraphDefBytes, TheEmptyGraphIsKept) { expect_kept(std::string()); }

TEST(GraphDefBytes, FieldsInAnotherOrderAreKept) {
  expect_kept({input(), entry("T", type_of(1)) + field(3, "x") + field(2, "Relu") + field(1, "y")});
  expect_kept({input(), field(1, "y") + field(2, "Relu") + field(3, "x") + entry("T", type_of(1)) +
                            field(1, "z")});
  expect_kept({input(), field(1, "y") + field(2, "Relu") + field(3, "x") +
                            field(5, field(2, type_of(1)) + field(1, "T"))});
}

TEST(GraphDefBytes, UnknownFieldsAreKept) {
  const std::string y = unary("y", "Relu", "x");
  expect_kept({input(), y + field(6, "debug info") + number_field(99, 7)});
  expect_kept({input(), number_field(99, 7) + y});
  expect_kept({input(), number_field(1, 7) + y + number_field(5, 7) + number_field(3, 1)});
  expect_kept({input(), field(1, "y") + field(2, "Relu") + field(3, "x") +
                            field(5, field(1, "T") + field(2, type_of(1)) + number_field(3, 3))});
  expect_kept({input(), y, field(1, "only") + field(2, "NoOp") + number_field(17, 1)});
}

TEST(GraphDefBytes, UnusualAttributesAreKept) {
  const auto with = [](const std::string& more) { return unary("y", "Relu", "x") + more; };
  expect_kept({input(), with(entry("T", type_of(1)))});           // twice
  expect_kept({input(), with(entry("", type_of(1)))});            // without a name
  expect_kept({input(), with(entry("\xff", type_of(1)))});        // no text
  expect_kept({input(), with(entry("tf.op", text_of("NoOp")))});  // a name of ours
  expect_kept({input(), with(entry("note.node", text_of("NoOp")))});
  expect_kept({input(), with(entry("empty", ""))});
  expect_kept({input(), with(field(5, field(1, "no value")))});
  expect_kept({input(), with(field(5, ""))});
  expect_kept({input(), with(entry("damaged", "\x0a"))});
}

TEST(GraphDefBytes, InputsAreKeptAsTheyAreSpelled) {
  expect_kept({input(), unary("y", "Relu", "x:0"), binary("z", "AddV2", {"y:0", "x"})});
  expect_kept({input(), node("n", "NoOp", {"^x", "^x", "^x"})});
  expect_kept({input(), unary("y", "Relu", "x:00")});
}

TEST(GraphDefBytes, DevicesAreKept) {
  const std::string y = field(1, "y") + field(2, "Relu") + field(3, "x");
  expect_kept({input(), y + field(4, "") + entry("T", type_of(1))});
  expect_kept({input(), y + field(4, "\xff") + entry("T", type_of(1))});
  expect_kept({input(), y + field(4, "/gpu:0") + entry("T", type_of(1))});
}

TEST(GraphDefBytes, FieldsOfTheGraphAreKeptWhereTheyStand) {
  const std::string versions = field(4, "\x08\x2a");
  const std::string nodes = graphdef({input(), unary("y", "Relu", "x")});
  expect_kept(versions + nodes);
  expect_kept(nodes + versions);
  expect_kept(graphdef({input()}) + versions + number_field(1, 5) +
              graphdef({unary("y", "Relu", "x")}) + versions);
  expect_kept(versions);
  expect_kept(graphdef({node("graph def", "NoOp"), node("own", "GraphDef")}) + versions);
}

TEST(GraphDefBytes, NodesInAnotherOrderKeepTheirPlaces) {
  const std::string library = field(2, "\x0a\x00");
  expect_kept({unary("y", "Relu", "x"), node("n", "NoOp", {"^y"}), input()});
  expect_kept(graphdef({unary("y", "Relu", "x")}) + library + graphdef({input()}));
}

TEST(GraphDefBytes, LengthsOfMoreBytesThanNeededAreKept) {
  const std::string y = unary("y", "Relu", "x");
  std::string framed = "\x8a\x80";
  framed += '\0';
  framed += static_cast<char>(0x80 | y.size());
  framed += '\0';
  expect_kept(graphdef({input()}) + framed + y);
}

TEST(GraphDefBytes, EveryKindOfDeclarationIsKept) {
  expect_kept({input(), node("v2", "PlaceholderV2", {}, {{"dtype", type_of(1)}}),
               node("arg", "_Arg", {}, {{"T", type_of(1)}, {"index", number_of(0)}}),
               node("ref", "VariableV2", {}, {{"dtype", type_of(1)}}),
               node("old", "Variable", {}, {{"dtype", type_of(1)}}),
               node("handle", "VarHandleOp", {}, {{"dtype", type_of(1)}}),
               node("bare", "VarHandleOp"), node("c", "Const", {}, {{"dtype", type_of(1)}}),
               node("late", "Const", {"^x"}, {{"dtype", type_of(1)}})});
}

TEST(GraphDefBytes, LoopsAreKept) {
  expect_kept({input(), enter("e", "x", "L"), merge("m", {"e", "n"}),
               binary("l", "Less", {"m", "m"}), node("c", "LoopCond", {"l"}),
               node("s", "Switch", {"m", "c"}, {{"T", type_of(1)}}), unary("b", "Relu", "s:1"),
               unary("n", "NextIteration", "b"), unary("x2", "Exit", "s")});
}

// A forward phase that the backward phase reads, long enough to have triggers.
std::vector<std::string> training(std::string_view device = "/device:GPU:0") {
  const auto op = [&](std::string_view name, std::string_view type,
                      std::vector<std::string> inputs) {
    return node(name, type, std::move(inputs), {{"T", type_of(1)}}, device);
  };
  std::vector<std::string> nodes = {input(), op("f0", "Tanh", {"x"})};
  for (int i = 1; i < 5; ++i) {
    const std::string n = std::to_string(i);
    nodes.push_back(op("f" + n, "Tanh", {"f" + std::to_string(i - 1)}));
  }
  nodes.push_back(op("gradients/g5", "Neg", {"f4"}));
  for (int i = 4; i >= 0; --i) {
    const std::string n = std::to_string(i);
    nodes.push_back(
        op("gradients/g" + n, "TanhGrad", {"f" + n, "gradients/g" + std::to_string(i + 1)}));
  }
  return nodes;
}

Graph rewritten(const std::string& bytes, const LmsOptions& options = {}) {
  auto done = rewrite_by_lms(read(bytes), options);
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_FALSE(done->journal.empty());
  return done ? std::move(done->graph) : Graph();
}

const NodeDefView& find(const GraphDefView& graph, std::string_view name) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const NodeDefView& each) { return each.name == name; });
  EXPECT_NE(found, graph.nodes.end()) << name;
  return *found;
}

std::optional<std::string_view> text_in(const NodeDefView& node, std::string_view key) {
  return text_of_attr_value(node.attribute(key).value_or(""));
}

TEST(GraphDefSwaps, AreIdentitiesOnTheHostOfTheSameMachine) {
  const std::string bytes =
      written(rewritten(graphdef(training("/job:a/replica:0/task:1/device:GPU:0"))));
  const auto graph = read_graphdef(bytes);
  ASSERT_TRUE(graph);
  for (const auto& [name, mark] : {std::pair("f0.host", "swap_out"), {"f0.back", "swap_in"}}) {
    const NodeDefView& swap = find(*graph, name);
    EXPECT_EQ(swap.op, "Identity");
    EXPECT_EQ(swap.device, "/job:a/replica:0/task:1/device:CPU:0");
    EXPECT_EQ(text_in(swap, "_ebb"), mark);
    EXPECT_EQ(text_in(swap, "_ebb_device"), "/job:a/replica:0/task:1/device:GPU:0");
    EXPECT_TRUE(swap.attribute("_grappler_do_not_remove"));
    EXPECT_EQ(int_of_attr_value(swap.attribute("T").value_or("")), 1);
  }
  EXPECT_THAT(find(*graph, "f0.host").inputs, ElementsAre("f0"));
  EXPECT_THAT(find(*graph, "f0.back").inputs, ElementsAre("f0.host", HasSubstr("^gradients/")));
}

TEST(GraphDefSwaps, AreCopyKernelsOnTheAcceleratorWhereAskedFor) {
  GraphDefExport options;
  options.swap_nodes = SwapNodes::kCopyKernels;
  const std::string bytes = written(rewritten(graphdef(training())), options);
  const auto graph = read_graphdef(bytes);
  ASSERT_TRUE(graph);
  EXPECT_EQ(find(*graph, "f0.host").op, "_CopyFromGpuToHost");
  EXPECT_EQ(find(*graph, "f0.back").op, "_CopyFromHostToGpu");
  EXPECT_EQ(find(*graph, "f0.back").device, "/device:GPU:0");
  EXPECT_EQ(swap_nodes_of(bytes), SwapNodes::kCopyKernels);
  EXPECT_EQ(swap_nodes_of(written(rewritten(graphdef(training())))), SwapNodes::kIdentity);
  expect_kept(bytes);
}

TEST(GraphDefSwaps, OnlyInputsOfChangedNodesDiffer) {
  std::vector<std::string> nodes = training();
  nodes.back() += field(6, "debug info");
  nodes[0] = number_field(77, 1) + nodes[0];
  const std::string before = graphdef(nodes);
  const std::string after = written(rewritten(before));
  const auto graph = read_graphdef(after);
  ASSERT_TRUE(graph);
  for (const std::string& old : nodes) {
    const std::string name(name_of_node(old));
    const NodeDefView& now = find(*graph, name);
    const std::vector<std::string> inputs(now.inputs.begin(), now.inputs.end());
    EXPECT_EQ(with_inputs(old, inputs), now.bytes) << name;
  }
  EXPECT_THAT(find(*graph, "gradients/g0").inputs, Contains("f0.back"));
}

TEST(GraphDefSwaps, ComeBackAsSwapsAndTheSameBytes) {
  const std::string after = written(rewritten(graphdef(training())));
  const Graph graph = read(after);
  EXPECT_EQ(graph.op(graph.find_node("f0.host")), kSwapOut);
  EXPECT_EQ(graph.op(graph.find_node("f0.back")), kSwapIn);
  EXPECT_EQ(graph.device(graph.find_node("f0.back")), "/device:GPU:0");
  expect_kept(after);
  const Graph original = read(graphdef(training()));
  const auto proof = compare_computations(original, graph);
  ASSERT_TRUE(proof) << proof.error().message;
  EXPECT_GT(proof->swap_ins, 0U);
}

TEST(GraphDefSwaps, NamesAreLegalAndUnique) {
  const auto op = [&](std::string_view name, std::string_view type,
                      std::vector<std::string> inputs) {
    return node(name, type, std::move(inputs), {{"T", type_of(1)}});
  };
  // What is swapped is the second result of a split.
  const std::vector<std::string> nodes = {
      input(),
      placeholder("axis", kInt32),
      op("in", "Tanh", {"x"}),
      node("_s", "Split", {"axis", "in"}, {{"T", type_of(1)}, {"num_split", number_of(2)}}),
      op("ebb_s_1.host", "Tanh", {"_s"}),
      op("a", "Tanh", {"_s:1"}),
      op("b", "Tanh", {"a"}),
      op("gradients/c", "Neg", {"b"}),
      op("gradients/d", "Neg", {"gradients/c"}),
      op("gradients/e", "Neg", {"gradients/d"}),
      op("gradients/f", "Mul", {"gradients/e", "_s:1"})};
  const std::string after = written(rewritten(graphdef(nodes)));
  const auto graph = read_graphdef(after);
  ASSERT_TRUE(graph);
  EXPECT_THAT(find(*graph, "ebb_s_1.host_1").inputs, ElementsAre("_s:1"));
  EXPECT_THAT(find(*graph, "gradients/f").inputs, ElementsAre("gradients/e", "ebb_s_1.back"));
  expect_kept(after);
}

TEST(GraphDefSwaps, ShapesAreGivenWhereTheFileGivesThem) {
  std::vector<std::string> nodes = training();
  nodes[1] = node("f0", "Tanh", {"x"},
                  {{"T", type_of(1)}, {"_output_shapes", shapes_of({{3, -1}})}}, "/device:GPU:0");
  const std::string after = written(rewritten(graphdef(nodes)));
  const auto graph = read_graphdef(after);
  ASSERT_TRUE(graph);
  for (const std::string_view name : {"f0.host", "f0.back"}) {
    EXPECT_EQ(find(*graph, name).attribute("_output_shapes"), shapes_of({{3, -1}})) << name;
  }
  EXPECT_FALSE(find(*graph, "f1.host").attribute("_output_shapes"));
}

TEST(GraphDefSwaps, EveryAcceleratorHasItsOwn) {
  std::vector<std::string> nodes = training("/gpu:0");
  for (std::string& each : training("/gpu:1")) {
    if (name_of_node(each) == "x") continue;
    std::vector<std::string> inputs;
    for (const std::string_view input : inputs_of_node(each)) {
      inputs.push_back(input == "x" ? "x" : std::string(input) + "_1");
    }
    nodes.push_back(node(std::string(name_of_node(each)) + "_1",
                         each.find("TanhGrad") != std::string::npos ? "TanhGrad"
                         : each.find("Neg") != std::string::npos    ? "Neg"
                                                                    : "Tanh",
                         inputs, {{"T", type_of(1)}}, "/gpu:1"));
  }
  const std::string after = written(rewritten(graphdef(nodes)));
  const auto graph = read_graphdef(after);
  ASSERT_TRUE(graph);
  EXPECT_EQ(text_in(find(*graph, "f0.back"), "_ebb_device"), "/gpu:0");
  EXPECT_EQ(text_in(find(*graph, "f0_1.back"), "_ebb_device"), "/gpu:1");
}

TEST(GraphDefClones, AreMarkedAndComeBackAsClones) {
  std::vector<std::string> nodes = training();
  nodes[2] += entry("tf.own", text_of("kept"));  // f1; a graph cannot have this attribute
  LmsOptions options;
  options.recompute_types = {"Tanh"};
  const std::string after = written(rewritten(graphdef(nodes), options));
  const auto graph = read_graphdef(after);
  ASSERT_TRUE(graph);
  const NodeDefView& clone = find(*graph, "f1.again");
  EXPECT_EQ(text_in(clone, "_ebb"), "recompute");
  EXPECT_EQ(text_in(clone, "_ebb_of"), "f1");
  EXPECT_EQ(text_in(clone, "tf.own"), "kept");
  const Graph again = read(after);
  EXPECT_EQ(again.clone_of(again.find_node("f1.again")), again.find_node("f1"));
  expect_kept(after);
  const auto proof = compare_computations(read(graphdef(nodes)), again);
  ASSERT_TRUE(proof) << proof.error().message;
  EXPECT_GT(proof->clones, 0U);
}

// Marks that are not true are attributes like others.

std::string marked(std::string_view name, std::string_view op, std::vector<std::string> inputs,
                   std::string_view mark, std::string_view of = {}) {
  Attributes attributes = {{"T", type_of(1)}, {"_ebb", text_of(mark)}};
  if (!of.empty()) attributes.emplace_back("_ebb_of", text_of(of));
  attributes.emplace_back("_grappler_do_not_remove", "\x28\x01");
  return node(name, op, std::move(inputs), attributes);
}

TEST(GraphDefMarks, DamagedOnesDoNoHarm) {
  const std::string y = unary("y", "Relu", "x");
  const std::vector<std::vector<std::string>> files = {
      {input(), y, marked("s", "AddV2", {"x", "y"}, "swap_out")},
      {input(), y, marked("s", "Identity", {"y"}, "swap_in")},
      {input(), y, marked("s", "Relu", {"y"}, "swap_out")},
      {input(), y, marked("s", "Identity", {"y"}, "encode")},
      {input(), y, marked("c", "Relu", {"x"}, "recompute")},
      {input(), y, marked("c", "Relu", {"x"}, "recompute", "nobody")},
      {input(), y, marked("c", "Relu", {"x"}, "recompute", "c")},
      {input(), y, marked("c", "Relu", {"x"}, "recompute", "x")},
      {input(), y, marked("c", "Tanh", {"x"}, "recompute", "y")},
      {input(), marked("a", "Relu", {"x"}, "recompute", "b"),
       marked("b", "Relu", {"x"}, "recompute", "a")},
      {input(), y, node("s", "Identity", {"y"}, {{"T", type_of(1)}, {"_ebb", number_of(1)}})},
      {input(), y, node("s", "NoOp", {"^y"}, {{"_ebb", text_of("swap_out")}})},
      {placeholder("i", kInt32),
       node("s", "Identity", {"i"}, {{"T", type_of(kInt32)}, {"_ebb", text_of("swap_out")}},
            "/cpu:0"),
       node("t", "Identity", {"s"}, {{"T", type_of(kInt32)}, {"_ebb", text_of("swap_out")}})},
  };
  for (const auto& nodes : files) {
    const Graph graph = read(graphdef(nodes));
    const NodeId last = graph.find_node(name_of_node(nodes.back()));
    ASSERT_TRUE(last.valid());
    EXPECT_FALSE(graph.clone_of(last).valid());
    EXPECT_FALSE(is_copy(graph.op(last)));
    EXPECT_NE(graph.find_attribute(last, "_ebb"), nullptr);
    expect_kept(nodes);
  }
}

// What has no form in TensorFlow.

std::string refusal(std::string_view text) {
  const auto graph = parse_valid(text);
  EXPECT_TRUE(graph) << graph.error().message;
  const auto bytes = export_graphdef(*graph);
  return bytes ? "accepted" : bytes.error().code + ": " + bytes.error().message;
}

TEST(GraphDefRefusals, GraphsFromElsewhereHaveNoForm) {
  EXPECT_THAT(refusal("graph g {\n  input %x: f32[2]\n  return %x\n}\n"),
              HasSubstr("G10: 'x' did not come from TensorFlow"));
  EXPECT_THAT(refusal("graph g {\n  %y: f32[2] = aten::ones()\n  return %y\n}\n"),
              HasSubstr("G10: 'y' did not come from TensorFlow"));
  EXPECT_THAT(refusal("graph g {\n  %y: f32[2] = tf::Merge(none)\n  return %y\n}\n"),
              HasSubstr("G10: operand 0 of 'y' is absent"));
}

TEST(GraphDefRefusals, CodecsHaveNoForm) {
  EXPECT_THAT(refusal("graph g {\n"
                      "  %y: f32[2] = tf::Ones()\n"
                      "  %z: f32[2] = ebb::snapshot(%y)\n"
                      "  return %z\n}\n"),
              HasSubstr("G11: 'z' (ebb::snapshot) has no form in TensorFlow"));
}

TEST(GraphDefRefusals, AHostThatIsNoneIsAUsageError) {
  GraphDefExport options;
  options.devices.host = "the host";
  const auto bytes = export_graphdef(read(graphdef({input()})), options);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().kind, ErrorKind::kUsage);
}

TEST(GraphDefRefusals, SwapsToWhereTensorsComeFromAreAUsageError) {
  GraphDefExport options;
  options.devices.accelerator = options.devices.host;
  EXPECT_TRUE(export_graphdef(read(graphdef(training())), options)) << "it has none";
  const auto bytes = export_graphdef(rewritten(graphdef(training())), options);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(bytes.error().message, HasSubstr("are the same device, '/device:CPU:0'"));
}

}  // namespace
}  // namespace ebb
