#include "scan.h"

#include <initializer_list>
#include <string>

#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

namespace ebb::grappler {
namespace {

// NOLINTBEGIN(readability-redundant-member-init): without them gcc warns where {.name = "a"}
// stands.
struct NodeText {
  std::string name;
  std::string op = "MatMul";
  std::string device = "/job:localhost/replica:0/task:0/device:GPU:0";
  std::string attribute = {};     // its key; the value is true
  std::string inlined_from = {};  // a function's name
};
// NOLINTEND(readability-redundant-member-init)

std::string graphdef(std::initializer_list<NodeText> nodes) {
  std::string out;
  protozero::pbf_writer graph(out);
  for (const NodeText& node : nodes) {
    std::string bytes;
    protozero::pbf_writer writer(bytes);
    writer.add_string(1, node.name);
    writer.add_string(2, node.op);
    writer.add_string(4, node.device);
    if (!node.attribute.empty()) {
      std::string value;
      protozero::pbf_writer(value).add_bool(5, true);
      std::string entry;
      protozero::pbf_writer entry_writer(entry);
      entry_writer.add_string(1, node.attribute);
      entry_writer.add_message(2, value);
      writer.add_message(5, entry);
    }
    if (!node.inlined_from.empty()) {
      std::string info;
      protozero::pbf_writer(info).add_string(2, node.inlined_from);
      writer.add_message(6, info);
    }
    graph.add_message(1, bytes);
  }
  return out;
}

TEST(Scan, BackwardNodesAreThoseInGradientScopes) {
  const Scan scan = scan_graphdef(
      graphdef({{.name = "a"}, {.name = "step/gradient_tape/a"}, {.name = "gradient_tapes/b"}}),
      {});
  EXPECT_EQ(scan.nodes, 3U);
  EXPECT_EQ(scan.backward_nodes, 1U);
}

TEST(Scan, BackwardNodesAreThoseInTheOptimizerSScopesWhereSomeAreNamed) {
  Configuration configuration;
  configuration.lms.optimizer_scopes = {"adam"};
  const Scan scan = scan_graphdef(
      graphdef({{.name = "gradients/a"}, {.name = "adam/b"}, {.name = "adam2/c"}}), configuration);
  EXPECT_EQ(scan.backward_nodes, 1U);
}

TEST(Scan, NodesOnTheAcceleratorAreCounted) {
  const std::string bytes =
      graphdef({{.name = "a"},
                {.name = "b", .device = "/job:localhost/replica:0/task:0/device:CPU:0"},
                {.name = "c", .device = "/job:localhost/replica:0/task:0/device:GPU:1"},
                {.name = "d", .device = ""}});
  EXPECT_EQ(scan_graphdef(bytes, {}).accelerator_nodes, 2U);
  Configuration first;
  first.devices.accelerator = "/device:GPU:0";
  EXPECT_EQ(scan_graphdef(bytes, first).accelerator_nodes, 1U);
}

TEST(Scan, OurAttributeTellsThatItWasRewritten) {
  EXPECT_FALSE(scan_graphdef(graphdef({{.name = "a", .attribute = "ebb"}}), {}).was_rewritten);
  EXPECT_TRUE(scan_graphdef(graphdef({{.name = "a", .attribute = "_ebb"}, {.name = "b"}}), {})
                  .was_rewritten);
}

TEST(Scan, ACallThatXlaCompilesIsNoticed) {
  EXPECT_EQ(
      scan_graphdef(graphdef({{.name = "a"}, {.name = "call", .attribute = "_XlaMustCompile"}}), {})
          .opaque_function,
      "call");
  EXPECT_EQ(
      scan_graphdef(graphdef({{.name = "call", .attribute = "_XlaOther"}}), {}).opaque_function,
      "");
}

TEST(Scan, TheFunctionIsTheOneThatMostOfTheBackwardPhaseComesFrom) {
  const Scan scan =
      scan_graphdef(graphdef({{.name = "a", .inlined_from = "__inference_forward_1"},
                              {.name = "b", .inlined_from = "__inference_forward_1"},
                              {.name = "gradient_tape/a", .inlined_from = "__inference_step_2"}}),
                    {});
  EXPECT_EQ(scan.function, "__inference_step_2");
}

TEST(Scan, TheSignatureIsOfArgumentsAndResultsAlone) {
  const NodeText argument{.name = "x", .op = "_Arg"};
  const NodeText result{.name = "y", .op = "_Retval"};
  const auto signature = [](const std::string& bytes) {
    return scan_graphdef(bytes, {}).signature;
  };
  EXPECT_EQ(signature(graphdef({argument, {.name = "a"}, result})),
            signature(graphdef({result, argument, {.name = "b"}})));
  EXPECT_NE(signature(graphdef({argument, result})), signature(graphdef({argument})));
}

TEST(Scan, BytesThatAreNoGraphThrow) {
  const std::string bytes = graphdef({{.name = "a"}});
  EXPECT_ANY_THROW(scan_graphdef(std::string_view(bytes).substr(0, bytes.size() - 3), {}));
}

}  // namespace
}  // namespace ebb::grappler
