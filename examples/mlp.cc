#include <fmt/format.h>

#include "examples/layers.h"
#include "examples/limits.h"
#include "examples/models.h"

namespace ebb::examples {

Result<Graph> mlp(const MlpOptions& options) {
  if (auto status = check_range({{"layers", options.layers, kMostLayers},
                                 {"width", options.width},
                                 {"inputs", options.inputs},
                                 {"outputs", options.outputs},
                                 {"batch", options.batch}});
      !status) {
    return fail(std::move(status.error()));
  }
  const bool classes = options.loss == Loss::kCrossEntropy;

  TrainingStep step("mlp", sgd(), options.update_early);
  const TensorId x = step.input("x", f32({options.batch, options.inputs}));
  const TensorId target = step.input("target", classes ? tensor_type(DType::kI64, {options.batch})
                                                       : f32({options.batch, options.outputs}));
  std::vector<Linear> layers;
  for (std::int64_t i = 1; i <= options.layers; ++i) {
    const std::int64_t in = i == 1 ? options.inputs : options.width;
    const std::int64_t out = i == options.layers ? options.outputs : options.width;
    layers.emplace_back(step, fmt::format("fc{}", i), in, out);
  }
  step.start();

  TensorId at = layers.front().apply(step, x);
  for (std::size_t i = 1; i < layers.size(); ++i) {
    at = layers[i].apply(step, relu(step, fmt::format("relu{}", i), at));
  }
  return step.finish(classes ? cross_entropy(step, at, target) : mean_square(step, at, target));
}

}  // namespace ebb::examples
