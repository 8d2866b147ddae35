// What TensorFlow's kernels for GPUs take beside operands and results, where it is much.
//
//   convolutions   cuDNN's kernels for tensor cores want channels last. What is not gets there and
//                  back in scratch memory: both images, channels filled up to a multiple of four.
//                  One point by one point without strides is a matrix product, and does without.
//   pooling of     cuDNN wants channels first there. What is not gets there and back: operands and
//   volumes        results; the gradient of an average has room for the input and output as well.
//   gradients of   are computed into a second tensor, which becomes the result; the first is
//   their inputs   dropped then.
//
// Convolutions as measured with TensorFlow 2.21 and cuDNN 9 on an H200 (docs/benchmarks.md),
// pooling by its source (cudnn_pooling_gpu.cc). The scratch memory of convolutions is cuDNN's
// choice: where there is less, TensorFlow takes another algorithm, and where there is more, it may
// take more.
#pragma once

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"

namespace ebb {

// Nothing for operations of the CPU and for those that are not TensorFlow's.
Bytes tensorflow_workspace(const Graph& graph, NodeId node, const Device& device);

}  // namespace ebb
