#include "ebb/plan/measured_profile.h"

#include <chrono>

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

using std::chrono::microseconds;

std::shared_ptr<const Graph> step() {
  auto graph = parse_valid(
      "graph g {\n  input %x: f32[2,2,4,4]\n  input %w: f32[3,3,2,8]\n"
      "  %conv: f32[2,8,4,4] = tf::Conv2D(%x, %w) {data_format = \"NCHW\"}\n"
      "  %a: f32[2,8,4,4] = tf::Relu(%conv)\n  %b: f32[2,8,4,4] = tf::Relu(%a)\n"
      "  %c: f32[2,8,4,4] = tf::Relu(%b)\n  return %c\n}\n");
  EXPECT_TRUE(graph) << graph.error().render("graph");
  return std::make_shared<const Graph>(*std::move(graph));
}

Device tensor_cores() {
  Device device;
  device.name = "gpu";
  device.convolution_layout = ConvolutionLayout::kChannelsLast;
  return device;
}

TEST(MeasuredProfile, OfASignatureTheMedianAndTheLargestWorkspace) {
  const std::vector graphs = {step()};
  const std::vector<MeasuredOperation> measured = {
      {"a", microseconds(5), Bytes{100}},  {"b", microseconds(3), Bytes{300}},
      {"c", microseconds(40), Bytes{200}}, {"c.again", microseconds(90), Bytes{900}},
      {"x", microseconds(90), Bytes{900}},
  };
  const auto profile = make_profile(graphs, tensor_cores(), measured);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->device(), "gpu");
  EXPECT_EQ(profile->operations(),
            (std::vector<ProfiledOperation>{
                {"tf::Relu(f32[2,8,4,4]) -> f32[2,8,4,4]", microseconds(5), Bytes{300}}}));
}

TEST(MeasuredProfile, WhatWasMeasuredIsOfTheGraphThatWasPlannedLast) {
  auto larger =
      parse_valid("graph g {\n  input %x: f32[64]\n  %a: f32[64] = tf::Relu(%x)\n  return %a\n}\n");
  ASSERT_TRUE(larger);
  const std::vector graphs = {step(), std::make_shared<const Graph>(*std::move(larger))};
  const std::vector<MeasuredOperation> measured = {{"a", microseconds(5), Bytes{100}},
                                                   {"b", microseconds(3), Bytes{300}}};
  const auto profile = make_profile(graphs, tensor_cores(), measured);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->operations(),
            (std::vector<ProfiledOperation>{
                {"tf::Relu(f32[2,8,4,4]) -> f32[2,8,4,4]", microseconds(3), Bytes{300}},
                {"tf::Relu(f32[64]) -> f32[64]", microseconds(5), Bytes{100}}}));
}

TEST(MeasuredProfile, AWorkspaceThatWasNotMeasuredIsTheDevices) {
  const std::vector graphs = {step()};
  const std::vector<MeasuredOperation> measured = {{"conv", microseconds(5), std::nullopt}};
  const auto profile = make_profile(graphs, tensor_cores(), measured);
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_EQ(profile->operations().size(), 1U);
  EXPECT_EQ(profile->operations()[0].workspace, Bytes{512 + 1024});
}

TEST(MeasuredProfile, WhatNoGraphHasIsNoProfile) {
  const std::vector graphs = {step()};
  const std::vector<MeasuredOperation> measured = {{"elsewhere", microseconds(5), std::nullopt}};
  const auto profile = make_profile(graphs, tensor_cores(), measured);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace ebb
