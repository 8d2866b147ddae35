#include "ebb/plan/workspace_tensorflow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "ebb/import/tensorflow_device.h"
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
    Convolution{"tf::Conv3DBackpropInputV2", Pass::kInput},
    Convolution{"tf::Conv2DBackpropFilter", Pass::kFilter},
    Convolution{"tf::Conv3DBackpropFilterV2", Pass::kFilter},
};

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

}  // namespace

Bytes tensorflow_workspace(const Graph& graph, NodeId node, const Device& device) {
  const auto* const found =
      std::find_if(kConvolutions.begin(), kConvolutions.end(),
                   [&](const auto& each) { return each.op == graph.op(node); });
  if (found == kConvolutions.end() || read_device(graph.device(node)).type == "CPU") return {};
  const Operation op(graph, node);
  const TensorType* const image = found->pass == Pass::kInput ? op.result(0) : op.operand(0);
  const TensorType* const filter = found->pass == Pass::kFilter ? op.result(0) : op.operand(1);
  const TensorType* const other = found->pass == Pass::kForward ? op.result(0) : op.operand(2);
  double bytes = found->pass == Pass::kInput ? bytes_moved(image) : 0;
  if (device.convolution_layout == ConvolutionLayout::kChannelsLast &&
      !is_matrix_product(op, filter, image, other)) {
    bytes += bytes_with_whole_channels(op, image) + bytes_with_whole_channels(op, other);
  }
  return Bytes{std::llround(std::min(bytes, 0x1p53))};
}

}  // namespace ebb
