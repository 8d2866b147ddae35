#include "ebb/plan/workspace_tensorflow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "ebb/plan/formulas.h"
#include "ebb/plan/operation.h"

namespace ebb {
namespace {

enum class Pass : std::uint8_t { kForward, kInput, kFilter };

struct Convolution {
  std::string_view op;
  Pass pass;
};

constexpr std::array kConvolutions = {
    Convolution{"tf::Conv2D", Pass::kForward},
    Convolution{"tf::Conv3D", Pass::kForward},
    Convolution{"tf::_FusedConv2D", Pass::kForward},
    Convolution{"tf::Conv2DBackpropInput", Pass::kInput},
    Convolution{"tf::Conv3DBackpropInput", Pass::kInput},
    Convolution{"tf::Conv3DBackpropInputV2", Pass::kInput},
    Convolution{"tf::Conv2DBackpropFilter", Pass::kFilter},
    Convolution{"tf::Conv3DBackpropFilter", Pass::kFilter},
    Convolution{"tf::Conv3DBackpropFilterV2", Pass::kFilter},
};

constexpr std::array<std::string_view, 4> kPooling3d = {"tf::AvgPool3D", "tf::AvgPool3DGrad",
                                                        "tf::MaxPool3D", "tf::MaxPool3DGrad"};

double channels(const Operation& op, const TensorType* image) {
  return dim(image, op.text("data_format").starts_with("NC") ? 1 : -1);
}

// The kernels for tensor cores take channels by fours.
double bytes_with_whole_channels(const Operation& op, const TensorType* image) {
  const double count = channels(op, image);
  return count < 1 ? 0 : bytes_moved(image) / count * 4 * std::ceil(count / 4);
}

// One point by one point, and none is left out.
bool is_matrix_product(const Operation& op, const TensorType* filter, const TensorType* image,
                       const TensorType* other) {
  if (filter == nullptr || filter->dims.size() < 3) return false;
  const bool is_one_point = std::all_of(filter->dims.begin(), filter->dims.end() - 2,
                                        [](auto extent) { return extent == 1; });
  return is_one_point &&
         element_count(image) * channels(op, other) == element_count(other) * channels(op, image);
}

double of_convolution(const Operation& op, Pass pass, const Device& device) {
  const TensorType* const image = pass == Pass::kInput ? op.result(0) : op.operand(0);
  const TensorType* const filter = pass == Pass::kFilter ? op.result(0) : op.operand(1);
  const TensorType* const other = pass == Pass::kForward ? op.result(0) : op.operand(2);
  const double second = pass == Pass::kInput ? bytes_moved(image) : 0;
  if (device.convolution_layout != ConvolutionLayout::kChannelsLast ||
      !formulas::tf_is_channels_first(op, filter) || is_matrix_product(op, filter, image, other)) {
    return second;
  }
  return second + bytes_with_whole_channels(op, image) + bytes_with_whole_channels(op, other);
}

double of_pooling_3d(const Operation& op, std::string_view name) {
  const bool is_first = op.text("data_format").starts_with("NC");
  const double turned = is_first ? 0 : op.all_operand_bytes() + op.all_result_bytes();
  // Its kernel is the one of the maximum, which gets input and output; these have no values here.
  return name == "tf::AvgPool3DGrad" ? turned + op.operand_bytes(1) + op.result_bytes(0) : turned;
}

}  // namespace

Bytes tensorflow_workspace(const Graph& graph, NodeId node, const Device& device) {
  const std::string_view name = graph.op(node);
  const Operation op(graph, node);
  double bytes = 0;
  if (const auto* const found = std::find_if(kConvolutions.begin(), kConvolutions.end(),
                                             [&](const auto& each) { return each.op == name; });
      found != kConvolutions.end()) {
    bytes = of_convolution(op, found->pass, device);
  } else if (std::find(kPooling3d.begin(), kPooling3d.end(), name) != kPooling3d.end()) {
    bytes = of_pooling_3d(op, name);
  }
  return bytes == 0 || op.is_on_cpu() ? Bytes{} : Bytes{std::llround(std::min(bytes, 0x1p53))};
}

}  // namespace ebb
