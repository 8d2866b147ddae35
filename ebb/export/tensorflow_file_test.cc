#include "ebb/export/tensorflow_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/import/textproto.h"

namespace ebb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kGraph =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } } "
    "node { name: 'y' op: 'Identity' input: 'x' } versions { producer: 2000 }";
constexpr std::string_view kInfo = "meta_info_def { tags: 'serve' tensorflow_version: '2.21.0' }";

std::string binary(std::string_view text) {
  const auto bytes = graphdef_from_text(text);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes.value_or("");
}

std::string meta_graph() { return fmt::format("{} graph_def {{ {} }}", kInfo, kGraph); }

TensorFlowFile read(const std::string& content, const TensorFlowFileOptions& options = {}) {
  auto file = read_tensorflow_file(content, options);
  EXPECT_TRUE(file) << file.error().message;
  return file.value_or(TensorFlowFile{});
}

std::string refusal(const std::string& content, const TensorFlowFileOptions& options = {}) {
  const auto file = read_tensorflow_file(content, options);
  if (file) return "accepted: " + file->describe();
  EXPECT_EQ(file.error().kind, ErrorKind::kBadInput);
  return file.error().render("");
}

TEST(TensorFlowFile, EachKindIsRecognisedAndItsGraphFound) {
  const std::string graph = binary(kGraph);
  const std::string meta = meta_graph();
  const std::string saved = fmt::format("saved_model_schema_version: 1 meta_graphs {{ {} }}", meta);
  EXPECT_EQ(read(graph).describe(), "binary GraphDef");
  EXPECT_EQ(read(binary(meta)).describe(), "binary MetaGraphDef");
  EXPECT_EQ(read(binary(saved)).describe(), "binary SavedModel, graph 1 of 1, tags: serve");
  EXPECT_EQ(read(std::string(kGraph)).describe(), "text GraphDef");
  EXPECT_EQ(read(meta).describe(), "text MetaGraphDef");
  EXPECT_EQ(read(saved).describe(), "text SavedModel, graph 1 of 1, tags: serve");
  for (const std::string& content : {graph, binary(meta), binary(saved), meta, saved}) {
    EXPECT_EQ(read(content).graphdef(), graph);
  }
}

TEST(TensorFlowFile, KindsAreToldApartWithoutTheirUsualFields) {
  for (const char* text : {"node { name: 'x' }", "library { function { signature { name: 'f' } } }",
                           "versions { producer: 1 }", "node {}"}) {
    EXPECT_EQ(read(binary(text)).describe(), "binary GraphDef") << text;
    EXPECT_EQ(read(binary(fmt::format("graph_def {{ {} }} {}", text, kInfo))).describe(),
              "binary MetaGraphDef")
        << text;
  }
  // A newer TensorFlow's field 100.
  EXPECT_EQ(read(binary(kGraph) + "\xa0\x06\x01").describe(), "binary GraphDef");
}

TEST(TensorFlowFile, OfSeveralGraphsTheFirstIsTakenUnlessTagsSayOtherwise) {
  const std::string model = binary(
      "meta_graphs { meta_info_def { tags: 'empty' } } "
      "meta_graphs { meta_info_def { tags: 'train' } graph_def { node { name: 'a' op: 'A' } } } "
      "meta_graphs { meta_info_def { tags: ['serve', 'tpu'] }"
      "              graph_def { node { name: 'b' op: 'B' } } } saved_model_schema_version: 1");
  const TensorFlowFile first = read(model);
  EXPECT_EQ(first.describe(), "binary SavedModel, graph 2 of 3, tags: train");
  EXPECT_THAT(std::string(first.graphdef()), HasSubstr("A"));
  const TensorFlowFile second = read(model, {.tags = {{"tpu", "serve"}}});
  EXPECT_EQ(second.meta_graph, 2U);
  EXPECT_THAT(second.tags, ElementsAre("serve", "tpu"));
  EXPECT_THAT(std::string(second.graphdef()), HasSubstr("B"));
  EXPECT_EQ(refusal(model, {.tags = {{"serve"}}}),
            "the SavedModel has no graph with the tags {serve}; it has {empty}, {train}, "
            "{serve, tpu}");
  EXPECT_EQ(refusal(model, {.tags = {{"empty"}}}), "the SavedModel has no graph");
}

TEST(TensorFlowFile, AChangedGraphLeavesAllOtherBytesAsTheyAre) {
  const std::string meta = meta_graph() + " collection_def { key: 'k' }";
  const std::string unknown_before("\xa2\x06\x03zzz", 6);  // field 100, which nobody knows
  const std::string unknown_after("\xaa\x06\x02yy", 5);
  const std::string before = binary("saved_model_schema_version: 1") + unknown_before;
  const std::string after = binary("meta_graphs { meta_info_def { tags: 'x' } }") + unknown_after;
  const std::string saved = before + binary(fmt::format("meta_graphs {{ {} }}", meta)) + after;
  for (const std::size_t size : {0U, 1U, 100U, 1000U, 100'000U}) {
    const std::string graph =
        binary(fmt::format("node {{ name: '{}' op: 'X' }}", std::string(size, 'n')));
    const std::string wanted = binary(fmt::format(
        "{} graph_def {{ node {{ name: '{}' op: 'X' }} }} collection_def {{ key: 'k' }}", kInfo,
        std::string(size, 'n')));
    EXPECT_TRUE(with_graphdef(read(binary(meta)), graph) == wanted) << size;
    const auto changed = with_graphdef(read(saved), graph);
    ASSERT_TRUE(changed);
    EXPECT_TRUE(changed->starts_with(before)) << size;
    EXPECT_TRUE(changed->ends_with(wanted + after)) << size;
    EXPECT_TRUE(read(*changed).graphdef() == graph) << size;
    EXPECT_EQ(with_graphdef(read(graph), binary(kGraph)), binary(kGraph));
  }
}

TEST(TensorFlowFile, TheSameGraphGivesTheSameFile) {
  // The length of the graph is written in more bytes than it takes.
  const std::string graph = binary(kGraph);
  const std::string meta = std::string("\x12") + static_cast<char>(graph.size() | 0x80U) +
                           std::string("\x80\x00", 2) + graph;
  ASSERT_LT(graph.size(), 128U);
  const TensorFlowFile file = read(meta);
  EXPECT_EQ(file.graphdef(), graph);
  EXPECT_EQ(with_graphdef(file, graph), meta);
  EXPECT_EQ(with_graphdef(file, ""), std::string("\x12\x00", 2));
}

TEST(TensorFlowFile, ATextStaysAText) {
  const TensorFlowFile file = read(meta_graph());
  EXPECT_EQ(with_graphdef(file, binary("node { name: 'z' }")),
            "meta_info_def {\n  tags: \"serve\"\n  tensorflow_version: \"2.21.0\"\n}\n"
            "graph_def {\n  node {\n    name: \"z\"\n  }\n}\n");
}

TEST(TensorFlowFile, WhatIsNoGraphIsRefused) {
  EXPECT_EQ(refusal(""), "G01: the file is empty");
  EXPECT_THAT(refusal("graph step {\n  return\n}\n"),
              HasSubstr("G01: this is no TensorFlow graph"));
  EXPECT_THAT(refusal("\x7f"
                      "ELF\x02\x01\x01"),
              HasSubstr("G01: this is no TensorFlow graph"));
  EXPECT_THAT(refusal(std::string(1000, '\xff')), HasSubstr("G01: this is no TensorFlow graph"));
  EXPECT_THAT(refusal("layer { name: 'x' }"), HasSubstr("no field 'layer' in GraphDef"));
  // ONNX: {ir_version: 8, producer_name: "pytorch", producer_version: "2.11.0"}
  EXPECT_THAT(refusal("\x08\x08\x12\x07pytorch\x1a\x06"
                      "2.11.0"),
              HasSubstr("G01: this is no TensorFlow graph"));
  EXPECT_EQ(refusal(binary(kInfo)), "the MetaGraphDef has no graph");
  EXPECT_EQ(refusal(binary("saved_model_schema_version: 1")), "the SavedModel has no graph");
  const std::string meta = binary(meta_graph());
  EXPECT_THAT(refusal(meta + binary(fmt::format("graph_def {{ {} }}", kGraph))),
              HasSubstr("its graph in 2 pieces"));
}

TEST(TensorFlowFile, AFileThatIsCutOffIsCalledSo) {
  const std::string graph = binary(kGraph);
  const std::string meta = binary(meta_graph());
  EXPECT_EQ(
      refusal(graph.substr(0, graph.size() - 1)),
      fmt::format("G01: the file begins like a binary GraphDef and ends after {} bytes in the "
                  "middle of a field: it is cut off",
                  graph.size() - 1));
  EXPECT_THAT(refusal(meta.substr(0, meta.size() - 1)), HasSubstr("like a binary MetaGraphDef"));
}

}  // namespace
}  // namespace ebb
