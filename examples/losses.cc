#include <string>

#include "examples/layers.h"
#include "examples/views.h"

namespace ebb::examples {
namespace {

// A mean, in ATen's numbering of reductions.
constexpr std::int64_t kMean = 1;

// [n, c, a, b, d] as [n, c, 1, a*b*d], and the class numbers likewise: the loss of images knows two
// dimensions of space.
Dims as_image(const Dims& dims, std::size_t from) {
  Dims result(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(from));
  std::int64_t rest = 1;
  for (std::size_t i = from; i < dims.size(); ++i) rest = times(rest, dims[i]);
  result.push_back(1);
  result.push_back(rest);
  return result;
}

}  // namespace

TensorId cross_entropy(TrainingStep& step, TensorId logits, TensorId target) {
  const Dims dims = step.dims(logits);
  const bool volumes = dims.size() > 4;
  const std::string op = dims.size() == 2 ? "aten::nll_loss" : "aten::nll_loss2d";
  const TensorId logs =
      step.kernel("aten::_log_softmax", {logits}).attr("dim", 1).makes("log_softmax", f32(dims));
  TensorId rows = logs;
  if (volumes) {
    rows = viewed(step, "log_softmax.view", logs, as_image(dims, 2));
    target = viewed(step, step.name(target) + ".view", target, as_image(step.dims(target), 1));
  }
  Kernel kernel = step.kernel(op + "_forward", {rows, target, absent()});
  // It looks up one number for each class number.
  kernel.attr("reduction", kMean).moves(bytes_moved(step.type(target)));
  const TensorId loss = kernel.makes("loss", f32({}));
  const TensorId total = kernel.makes("loss.total_weight", f32({}));

  const auto rule = [&step, logits, target, logs, rows, total, op, dims](TensorId g) {
    TensorId grad = step.kernel(op + "_backward", {g, rows, target, absent(), total})
                        .attr("reduction", kMean)
                        .makes("gradients/" + step.name(rows), f32(step.dims(rows)));
    if (rows != logs) grad = viewed(step, "gradients/" + step.name(logs), grad, dims);
    step.add_gradient(logits, step.kernel("aten::_log_softmax_backward_data", {grad, logs})
                                  .attr("dim", 1)
                                  .makes(step.gradient_name(logits), f32(dims)));
  };
  step.differentiate({loss}, {logits}, rule);
  return loss;
}

TensorId mean_square(TrainingStep& step, TensorId prediction, TensorId target) {
  const TensorId loss = step.kernel("aten::mse_loss", {prediction, target})
                            .attr("reduction", kMean)
                            .makes("loss", f32({}));
  step.differentiate({loss}, {prediction}, [&step, prediction, target](TensorId g) {
    step.add_gradient(prediction,
                      step.kernel("aten::mse_loss_backward", {g, prediction, target})
                          .attr("reduction", kMean)
                          .makes(step.gradient_name(prediction), f32(step.dims(prediction))));
  });
  return loss;
}

}  // namespace ebb::examples
