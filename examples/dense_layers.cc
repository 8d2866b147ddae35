#include <utility>

#include "examples/layers.h"
#include "examples/views.h"

namespace ebb::examples {

Linear::Linear(TrainingStep& step, std::string layer_name, std::int64_t in, std::int64_t out,
               bool with_bias)
    : name(std::move(layer_name)), weight(step.weight(name + ".weight", {out, in})) {
  if (with_bias) bias = step.weight(name + ".bias", {out});
}

TensorId Linear::apply(TrainingStep& step, TensorId x) const {
  return linear(step, name, x, weight, bias);
}

TensorId linear(TrainingStep& step, const std::string& name, TensorId x, TensorId weight,
                TensorId bias) {
  const std::int64_t rows = step.dims(x)[0];
  const std::int64_t out = step.dims(weight)[0];
  const double flops = multiply_adds({rows, out, step.dims(weight)[1]});
  const TensorId turned = transposed(step, step.name(weight) + ".t", weight);
  Kernel kernel = bias.valid() ? step.kernel("aten::addmm", {bias, x, turned})
                               : step.kernel("aten::mm", {x, turned});
  const TensorId y = kernel.flops(flops).makes(name, f32({rows, out}));

  // The weight's gradient comes last, so that it may be updated right after it.
  step.differentiate({y}, {x, weight, bias}, [&step, x, weight, bias, y, flops](TensorId g) {
    if (step.wants_gradient(x)) {
      step.add_gradient(x, step.kernel("aten::mm", {g, weight})
                               .flops(flops)
                               .makes(step.gradient_name(x), f32(step.dims(x))));
    }
    if (bias.valid()) {
      step.add_gradient(bias, step.kernel("aten::sum.dim_IntList", {g})
                                  .attr("dim", Dims{0})
                                  .makes(step.gradient_name(bias), step.type(bias)));
    }
    const TensorId g_turned = transposed(step, "gradients/" + step.name(y) + ".t", g);
    step.add_gradient(weight, step.kernel("aten::mm", {g_turned, x})
                                  .flops(flops)
                                  .makes(step.gradient_name(weight), step.type(weight)));
  });
  return y;
}

TensorId relu(TrainingStep& step, const std::string& name, TensorId x) {
  const TensorId y = step.kernel("aten::relu", {x}).makes(name, f32(step.dims(x)));
  step.differentiate({y}, {x}, [&step, x, y](TensorId g) {
    step.add_gradient(x, step.kernel("aten::threshold_backward", {g, y})
                             .attr("threshold", 0)
                             .makes(step.gradient_name(x), f32(step.dims(x))));
  });
  return y;
}

TensorId gelu(TrainingStep& step, const std::string& name, TensorId x) {
  const TensorId y = step.kernel("aten::gelu", {x}).makes(name, f32(step.dims(x)));
  step.differentiate({y}, {x}, [&step, x](TensorId g) {
    step.add_gradient(
        x,
        step.kernel("aten::gelu_backward", {g, x}).makes(step.gradient_name(x), f32(step.dims(x))));
  });
  return y;
}

TensorId add(TrainingStep& step, const std::string& name, TensorId a, TensorId b) {
  const TensorId y = step.kernel("aten::add.Tensor", {a, b}).makes(name, f32(step.dims(a)));
  step.differentiate({y}, {a, b}, [&step, a, b](TensorId g) {
    if (step.wants_gradient(a)) step.add_gradient(a, g);
    if (step.wants_gradient(b)) step.add_gradient(b, g);
  });
  return y;
}

TensorId dropout(TrainingStep& step, const std::string& name, TensorId x, double probability) {
  if (probability == 0) return x;
  const Dims dims = step.dims(x);
  Kernel kernel = step.kernel("aten::native_dropout", {x});
  kernel.attr("p", probability).attr("train", true).random();
  const TensorId y = kernel.makes(name, f32(dims));
  const TensorId mask = kernel.makes(name + ".mask", tensor_type(DType::kBool, dims));
  step.differentiate({y}, {x}, [&step, x, mask, scale = 1 / (1 - probability)](TensorId g) {
    step.add_gradient(x, step.kernel("aten::native_dropout_backward", {g, mask})
                             .attr("scale", scale)
                             .makes(step.gradient_name(x), f32(step.dims(x))));
  });
  return y;
}

}  // namespace ebb::examples
