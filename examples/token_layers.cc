#include "examples/token_layers.h"

#include <utility>

#include "examples/views.h"

namespace ebb::examples {

TensorId embedding(TrainingStep& step, const std::string& name, TensorId table, TensorId indices) {
  Dims dims = step.dims(indices);
  dims.push_back(step.dims(table)[1]);
  const TensorType type = f32(dims);
  // Of the table only the rows that are asked for are read.
  const TensorId y = step.kernel("aten::embedding", {table, indices})
                         .moves(2 * bytes_moved(type))
                         .makes(name, type);
  step.differentiate({y}, {table}, [&step, table, indices](TensorId g) {
    step.add_gradient(table, step.kernel("aten::embedding_dense_backward", {g, indices})
                                 .attr("num_weights", step.dims(table)[0])
                                 .attr("padding_idx", -1)
                                 .makes(step.gradient_name(table), step.type(table)));
  });
  return y;
}

TensorId add_positions(TrainingStep& step, const std::string& name, TensorId tokens,
                       TensorId positions) {
  const TensorId y =
      step.kernel("aten::add.Tensor", {tokens, positions}).makes(name, f32(step.dims(tokens)));
  step.differentiate({y}, {tokens, positions}, [&step, tokens, positions](TensorId g) {
    step.add_gradient(tokens, g);
    step.add_gradient(positions, step.kernel("aten::sum.dim_IntList", {g})
                                     .attr("dim", Dims{0})
                                     .makes(step.gradient_name(positions), step.type(positions)));
  });
  return y;
}

LayerNorm::LayerNorm(TrainingStep& step, std::string layer_name, std::int64_t width, bool with_bias)
    : name(std::move(layer_name)), weight(step.weight(name + ".weight", {width})) {
  if (with_bias) bias = step.weight(name + ".bias", {width});
}

TensorId LayerNorm::apply(TrainingStep& step, TensorId x) const {
  constexpr double kEpsilon = 1e-5;
  const Dims width = step.dims(weight);
  const TensorType statistics = f32({step.dims(x)[0], 1});
  Kernel kernel =
      step.kernel("aten::native_layer_norm", {x, weight, bias.valid() ? bias : absent()});
  kernel.attr("normalized_shape", width).attr("eps", kEpsilon);
  const TensorId y = kernel.makes(name, f32(step.dims(x)));
  const TensorId mean = kernel.makes(name + ".mean", statistics);
  const TensorId rstd = kernel.makes(name + ".rstd", statistics);

  const auto rule = [&step, x, w = weight, b = bias, mean, rstd, width](TensorId g) {
    Kernel backward = step.kernel("aten::native_layer_norm_backward",
                                  {g, x, mean, rstd, w, b.valid() ? b : absent()});
    backward.attr("normalized_shape", width).attr("output_mask", {true, true, b.valid()});
    const TensorId grad_x = backward.makes(step.gradient_name(x), f32(step.dims(x)));
    const TensorId grad_w = backward.makes(step.gradient_name(w), step.type(w));
    TensorId grad_b;
    if (b.valid()) grad_b = backward.makes(step.gradient_name(b), step.type(b));
    step.add_gradient(x, grad_x);
    step.add_gradient(w, grad_w);
    if (b.valid()) step.add_gradient(b, grad_b);
  };
  step.differentiate({y}, {x, weight, bias}, rule);
  return y;
}

TensorId reshape(TrainingStep& step, const std::string& name, TensorId x, const Dims& dims) {
  TensorId source = x;
  if (!is_contiguous(step, x)) {
    source = step.kernel("aten::clone", {x})
                 .attr("memory_format", "contiguous")
                 .makes(name + ".clone", f32(step.dims(x)));
  }
  const TensorId y = viewed(step, name, source, dims);
  step.differentiate({y}, {x}, [&step, x](TensorId g) {
    step.add_gradient(x, reshape(step, step.gradient_name(x), g, step.dims(x)));
  });
  return y;
}

}  // namespace ebb::examples
