// The roofline against what was measured on an H200 (docs/planning.md): ResNet-50, batch 832, TF32.
#include <gtest/gtest.h>

#include "ebb/plan/device.h"
#include "ebb/plan/roofline.h"
#include "examples/models.h"

namespace ebb::examples {
namespace {

struct Milliseconds {
  double forward = 0;
  double backward = 0;
};

// By the model alone: the example's text has times of its own. Without the optimizer.
Milliseconds resnet_50(const Device& device) {
  const Graph graph = resnet({.blocks = {3, 4, 6, 3}, .batch = 832}).value();
  Milliseconds sum;
  for (const NodeId node : graph.order()) {
    const double time = static_cast<double>(time_of(work_of(graph, node), device).count()) / 1e6;
    if (graph.name(node).starts_with("gradients/")) {
      sum.backward += time;
    } else if (sum.backward == 0) {
      sum.forward += time;
    }
  }
  return sum;
}

TEST(Roofline, IsNearTheMeasuredResNet50) {
  Device device = find_device("h200").value();
  // The example's images have their channels first. Measured: 2238 images a second, 372 ms.
  const Milliseconds channels_first = resnet_50(device);
  EXPECT_NEAR(channels_first.forward + channels_first.backward, 372, 0.05 * 372);
  // Nothing to repack is as channels last, measured forward and backward.
  device.convolution_layout = ConvolutionLayout::kAny;
  const Milliseconds channels_last = resnet_50(device);
  EXPECT_NEAR(channels_last.forward, 92, 0.05 * 92);
  EXPECT_NEAR(channels_last.backward, 159, 0.05 * 159);
}

}  // namespace
}  // namespace ebb::examples
