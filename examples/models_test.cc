#include "examples/models.h"

#include <string>

#include <gtest/gtest.h>

#include "ebb/base/file.h"
#include "ebb/graph/parse.h"
#include "ebb/graph/print.h"

namespace ebb::examples {
namespace {

using Models = std::vector<std::pair<std::string, Result<Graph>>>;

Models models() {
  Models all;
  const auto add = [&all](std::string name, Result<Graph> graph) {
    all.emplace_back(std::move(name), std::move(graph));
  };
  add("mlp", mlp());
  add("mlp, one layer", mlp({.layers = 1}));
  add("mlp, mean square", mlp({.outputs = 1, .loss = Loss::kMeanSquare}));
  add("mlp, early", mlp({.layers = 5, .update_early = true}));
  add("resnet", resnet());
  add("resnet, one pixel", resnet({.blocks = {1, 1, 1, 1}, .image = 1, .batch = 1}));
  add("resnet, no projection", resnet({.blocks = {1}, .channels = 1}));
  add("resnet, early", resnet({.blocks = {1, 2}, .update_early = true}));
  add("unet", unet());
  add("unet, volumes", unet({.dimensions = 3, .depth = 3, .channels = 32, .size = 64}));
  add("unet, flat", unet({.depth = 1, .convolutions = 1, .size = 2, .batch_norm = false}));
  add("unet, early", unet({.update_early = true}));
  add("transformer", transformer());
  add("transformer, no dropout", transformer({.layers = 2, .dropout = 0, .bias = false}));
  add("transformer, one token", transformer({.layers = 1, .sequence = 1, .batch = 1}));
  add("transformer, one head", transformer({.layers = 1, .width = 8, .heads = 1}));
  add("transformer, early", transformer({.layers = 2, .update_early = true}));
  return all;
}

std::size_t nodes(const Result<Graph>& graph) { return graph ? graph->node_count() : 0; }

std::string checked_in(const std::string& name) {
  const auto text = read_file(std::string(EBB_SOURCE_DIR) + "/examples/" + name);
  return text ? *text : text.error().message;
}

// What examples/README.md says the file was made with.
void expect_made_by(const std::string& name, const Result<Graph>& graph) {
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(checked_in(name), print(*graph));
}

TEST(Models, BuildAndVerify) {
  for (const auto& [name, graph] : models()) {
    EXPECT_TRUE(graph) << name << ": " << graph.error().message;
  }
}

TEST(Models, SurviveTheTextForm) {
  for (const auto& [name, graph] : models()) {
    ASSERT_TRUE(graph) << name;
    const std::string text = print(*graph);
    const auto again = parse_valid(text);
    ASSERT_TRUE(again) << name << ": " << again.error().message;
    EXPECT_EQ(print(*again), text) << name;
  }
}

TEST(Models, EveryOperationOfTheDeviceHasATime) {
  for (const auto& [name, graph] : models()) {
    ASSERT_TRUE(graph) << name;
    for (const NodeId node : graph->nodes()) {
      if (!graph->is_op(node) || graph->scalar_result(node).valid()) continue;
      EXPECT_TRUE(graph->takes(node).has_value()) << name << ": " << print(*graph, node);
    }
  }
}

TEST(Models, EveryWeightIsUpdated) {
  for (const auto& [name, graph] : models()) {
    ASSERT_TRUE(graph) << name;
    std::vector<bool> updated(graph->storage_count());
    for (const TensorId tensor : graph->tensors()) {
      if (graph->version(tensor) > 0) updated[graph->storage(tensor).index()] = true;
    }
    for (const StorageId storage : graph->storages()) {
      if (graph->origin(storage) != NodeKind::kParam) continue;
      EXPECT_TRUE(updated[storage.index()]) << name << ": " << graph->name(graph->root(storage));
    }
  }
}

TEST(Models, ReturnTheLoss) {
  for (const auto& [name, graph] : models()) {
    ASSERT_TRUE(graph) << name;
    ASSERT_EQ(graph->outputs().size(), 1U) << name;
    EXPECT_EQ(graph->name(graph->outputs()[0]), "loss") << name;
  }
}

TEST(Models, LateUpdatesFollowTheWholeBackwardPass) {
  const auto graph = mlp({.layers = 4});
  ASSERT_TRUE(graph);
  bool updating = false;
  for (const NodeId node : graph->order()) {
    const bool updates = graph->op(node).starts_with("aten::add_");
    updating = updating || updates;
    EXPECT_EQ(updates, updating) << print(*graph, node);
  }
}

TEST(Models, KeepTheStridesOfWhatTheySplit) {
  for (const std::int64_t batch : {1, 2}) {
    const auto graph =
        transformer({.layers = 1, .width = 8, .heads = 2, .sequence = 3, .batch = batch});
    ASSERT_TRUE(graph);
    const TensorType type = graph->type(graph->find_tensor("h.0.attn.k.turned"));
    EXPECT_EQ(type.dims, (std::vector<std::int64_t>{batch, 2, 3, 4}));
    EXPECT_EQ(type.strides, (std::vector<std::int64_t>{72, 4, 24, 1}));
  }
}

TEST(Models, TwiceTheLayersAreTwiceTheNodes) {
  const auto expect_twice = [](std::size_t once, std::size_t twice) {
    EXPECT_GT(static_cast<double>(twice), 1.8 * static_cast<double>(once));
    EXPECT_LT(static_cast<double>(twice), 2.0 * static_cast<double>(once));
  };
  expect_twice(nodes(mlp({.layers = 20})), nodes(mlp({.layers = 40})));
  expect_twice(nodes(resnet({.blocks = {5, 5}})), nodes(resnet({.blocks = {10, 10}})));
  expect_twice(nodes(unet({.convolutions = 4})), nodes(unet({.convolutions = 8})));
  expect_twice(nodes(transformer({.layers = 10})), nodes(transformer({.layers = 20})));
}

TEST(Models, HaveTheSizeAskedFor) {
  for (const std::size_t wanted : {5'000U, 100'000U}) {
    const double size = static_cast<double>(wanted);
    EXPECT_NEAR(static_cast<double>(nodes(mlp(mlp_of_size(wanted)))), size, 0.05 * size);
    EXPECT_NEAR(static_cast<double>(nodes(resnet(resnet_of_size(wanted)))), size, 0.05 * size);
    EXPECT_NEAR(static_cast<double>(nodes(transformer(transformer_of_size(wanted)))), size,
                0.05 * size);
  }
}

TEST(Models, RefuseWhatIsOutOfRange) {
  const auto expect_refused = [](const Result<Graph>& graph, const std::string& message) {
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(graph.error().message, message);
  };
  expect_refused(mlp({.batch = 0}), "batch is 0, and must be at least 1");
  expect_refused(mlp({.batch = 99'999'999'999'999}),
                 "batch is 99999999999999, and must be at most 1099511627776");
  expect_refused(mlp({.layers = 100'000'000}), "layers is 100000000, and must be at most 1000000");
  expect_refused(resnet({.blocks = {1'000'000, 1}}),
                 "blocks add up to more than 1000000, the most there can be");
  expect_refused(mlp({.layers = -1}), "layers is -1, and must be at least 1");
  expect_refused(resnet({.blocks = {1, 0}}), "blocks is 0, and must be at least 1");
  expect_refused(resnet({.blocks = {}}), "blocks is empty; name at least one stage");
  expect_refused(unet({.dimensions = 4}), "dimensions is 4, and must be 2 or 3");
  expect_refused(unet({.depth = 4, .size = 100}),
                 "size is 100, and must be a multiple of 16 to be halved 4 times");
  expect_refused(transformer({.width = 100, .heads = 3}),
                 "width is 100, and must be a multiple of heads, 3");
  expect_refused(transformer({.dropout = 1}), "dropout is 1, and must be from 0 to below 1");
}

TEST(Models, RefuseSizesThatOverflow) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40U;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto expect_refused = [](const Result<Graph>& graph,
                                 ErrorKind kind = ErrorKind::kBadInput) {
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().kind, kind) << graph.error().message;
  };
  for (const std::int64_t size : {kHuge, kMost}) {
    const ErrorKind kind = size == kHuge ? ErrorKind::kBadInput : ErrorKind::kUsage;
    expect_refused(mlp({.width = size}), kind);
    expect_refused(mlp({.width = size, .inputs = size, .batch = size}), kind);
    expect_refused(resnet({.channels = size}), kind);
    expect_refused(resnet({.image = size, .batch = size}), kind);
    expect_refused(unet({.channels = size}), kind);
    expect_refused(unet({.dimensions = 3, .size = size, .batch = size}), kind);
    expect_refused(transformer({.width = size, .heads = 1}), kind);
    expect_refused(transformer({.sequence = size, .batch = size}), kind);
    expect_refused(transformer({.layers = 1, .heads = 1, .sequence = size, .batch = 1}), kind);
  }
  expect_refused(resnet({.blocks = std::vector<std::int64_t>(60, 1)}));
  expect_refused(mlp({.width = 1 << 26, .batch = 1 << 30}));  // each fits, the time does not
}

TEST(CheckedInExamples, AreWhatTheGeneratorMakes) {
  expect_made_by("mlp.ebb", mlp({.layers = 2, .batch = 8192}));
  expect_made_by("resnet.ebb", resnet({.blocks = {2}}));
  expect_made_by("unet.ebb", unet({.dimensions = 3,
                                   .depth = 2,
                                   .convolutions = 1,
                                   .channels = 32,
                                   .size = 128,
                                   .batch = 2,
                                   .batch_norm = false}));
  expect_made_by("transformer.ebb", transformer({.layers = 1, .bias = false}));
}

TEST(CheckedInExamples, TinyIsCanonicalText) {
  const std::string text = checked_in("tiny.ebb");
  const auto graph = parse_valid(text);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(print(*graph), text);
}

}  // namespace
}  // namespace ebb::examples
