#include "ebb/plan/workspace_tensorflow.h"

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"

namespace ebb {
namespace {

Device tensor_cores() {
  Device device;
  device.convolution_layout = ConvolutionLayout::kChannelsLast;
  return device;
}

// Of the operation %r. An image of two channels has 2 * 2 * 16 * 4 = 256 bytes, of four 512, of
// eight 1024.
Bytes workspace(const std::string& line, const Device& device = tensor_cores()) {
  const auto graph = parse_valid(
      "graph g {\n  input %x: f32[2,2,4,4]\n  input %dy: f32[2,8,4,4]\n"
      "  input %last: f32[2,4,4,2]\n  input %half: bf16[2,4,4,2]\n"
      "  input %half_w: bf16[3,3,2,8]\n"
      "  input %volume: f32[1,4,4,4,2]\n  input %pooled: f32[1,2,2,2,2]\n"
      "  input %first: f32[1,2,4,4,4]\n  input %first_pooled: f32[1,2,2,2,2]\n"
      "  input %w: f32[3,3,2,8]\n  input %point: f32[1,1,2,8]\n  input %sizes: i32[4] @host\n" +
      line + "\n  return %r\n}\n");
  EXPECT_TRUE(graph) << graph.error().render("graph");
  return tensorflow_workspace(*graph, graph->find_node("r"), device);
}

constexpr const char* kStrides = R"({data_format = "NCHW", strides = [1, 1, 1, 1]})";

TEST(WorkspaceTensorflow, BothImagesChangeTheirLayoutWithChannelsByFours) {
  EXPECT_EQ(workspace(std::string("  %r: f32[2,8,4,4] = tf::Conv2D(%x, %w) ") + kStrides),
            Bytes{512 + 1024});
  EXPECT_EQ(
      workspace(std::string("  %r: f32[3,3,2,8] = tf::Conv2DBackpropFilter(%x, %sizes, %dy) ") +
                kStrides),
      Bytes{512 + 1024});
}

TEST(WorkspaceTensorflow, TensorflowTurnsChannelsLastOfF32AndNoOthers) {
  EXPECT_EQ(workspace(R"(  %r: f32[2,4,4,8] = tf::Conv2D(%last, %w) {data_format = "NHWC"})"),
            Bytes{512 + 1024});
  EXPECT_EQ(workspace(R"(  %r: bf16[2,4,4,8] = tf::Conv2D(%half, %half_w) {data_format = "NHWC"})"),
            Bytes{});
}

TEST(WorkspaceTensorflow, TheGradientOfTheInputIsThereTwice) {
  EXPECT_EQ(
      workspace(std::string("  %r: f32[2,2,4,4] = tf::Conv2DBackpropInput(%sizes, %w, %dy) ") +
                kStrides),
      Bytes{256 + 512 + 1024});
}

TEST(WorkspaceTensorflow, OnePointIsAProduct) {
  EXPECT_EQ(workspace(std::string("  %r: f32[2,8,4,4] = tf::Conv2D(%x, %point) ") + kStrides),
            Bytes{});
  EXPECT_EQ(
      workspace(std::string("  %r: f32[2,2,4,4] = tf::Conv2DBackpropInput(%sizes, %point, %dy) ") +
                kStrides),
      Bytes{256});
}

TEST(WorkspaceTensorflow, OnePointOfEachFourIsNone) {
  EXPECT_EQ(workspace(R"(  %r: f32[2,8,2,2] = tf::Conv2D(%x, %point) {data_format = "NCHW"})"),
            Bytes{512 + 256});
}

// A volume has 128 elements, 512 bytes, a pooled one 64 bytes.
TEST(WorkspaceTensorflow, PoolingTurnsVolumesWithChannelsLast) {
  EXPECT_EQ(workspace(R"(  %r: f32[1,2,2,2,2] = tf::MaxPool3D(%volume) {data_format = "NDHWC"})"),
            Bytes{512 + 64});
  EXPECT_EQ(workspace("  %r: f32[1,2,2,2,2] = tf::AvgPool3D(%volume)"), Bytes{512 + 64});
  EXPECT_EQ(workspace(R"(  %r: f32[1,2,2,2,2] = tf::MaxPool3D(%first) {data_format = "NCDHW"})"),
            Bytes{});
  EXPECT_EQ(workspace("  %r: f32[1,4,4,4,2] = tf::MaxPool3DGrad(%volume, %pooled, %pooled)"),
            Bytes{2 * 512 + 2 * 64});
  EXPECT_EQ(workspace("  %r: f32[1,2,4,4,4] = tf::MaxPool3DGrad(%first, %first_pooled, "
                      "%first_pooled) {data_format = \"NCDHW\"}"),
            Bytes{});
}

TEST(WorkspaceTensorflow, TheGradientOfAnAverageHasRoomForWhatItDoesNotRead) {
  EXPECT_EQ(workspace("  %r: f32[1,4,4,4,2] = tf::AvgPool3DGrad(%sizes, %pooled)"),
            Bytes{2 * 512 + 2 * 64});
  EXPECT_EQ(workspace("  %r: f32[1,2,4,4,4] = tf::AvgPool3DGrad(%sizes, %first_pooled) "
                      "{data_format = \"NCDHW\"}"),
            Bytes{512 + 64});
}

TEST(WorkspaceTensorflow, DevicesThatTakeAnyLayoutNeedNoScratchMemory) {
  EXPECT_EQ(
      workspace(
          std::string("  %r: f32[2,2,4,4] = tf::Conv2DBackpropInput(%sizes, %w, %dy) ") + kStrides,
          Device{}),
      Bytes{256});
}

TEST(WorkspaceTensorflow, OtherOperationsAndThoseOfTheCpuNeedNone) {
  EXPECT_EQ(workspace("  %r: f32[2,2,4,4] = tf::Relu(%x)"), Bytes{});
  EXPECT_EQ(workspace("  %r: f32[2,8,4,4] = tf::Conv2D(%x, %w) @\"/device:CPU:1\""), Bytes{});
  EXPECT_EQ(workspace("  %r: f32[1,2,2,2,2] = tf::MaxPool3D(%volume) @\"/device:CPU:0\""), Bytes{});
}

}  // namespace
}  // namespace ebb
