#include <algorithm>
#include <string_view>
#include <utility>

#include "examples/layers.h"
#include "examples/views.h"

namespace ebb::examples {
namespace {

constexpr double kStatisticsMomentum = 0.1;
constexpr double kEpsilon = 1e-5;

std::int64_t product(const Dims& dims, std::size_t from) {
  std::int64_t result = 1;
  for (std::size_t i = from; i < dims.size(); ++i) result = times(result, dims[i]);
  return result;
}

Dims filter(const Convolution::Shape& shape) { return Dims(shape.space, shape.kernel); }

Dims weight_dims(const Convolution::Shape& shape) {
  Dims dims = shape.transposed ? Dims{shape.in, shape.out} : Dims{shape.out, shape.in};
  dims.insert(dims.end(), shape.space, shape.kernel);
  return dims;
}

std::int64_t padding(const Convolution::Shape& shape) {
  return shape.transposed ? 0 : (shape.kernel - 1) / 2;
}

Dims result_dims(const Convolution::Shape& shape, Dims dims) {
  dims[1] = shape.out;
  for (std::size_t i = 2; i < dims.size(); ++i) {
    dims[i] = shape.transposed ? times(dims[i] - 1, shape.stride) + shape.kernel
                               : (dims[i] + 2 * padding(shape) - shape.kernel) / shape.stride + 1;
  }
  return dims;
}

// Libraries lay out the patches that the filter sees, of one image at a time and within a limit; a
// filter of one element sees the image as it is.
Bytes patch_workspace(const Convolution::Shape& shape, const Dims& result) {
  constexpr std::int64_t kLimit = std::int64_t{64} << 20U;
  if (shape.kernel == 1) return {};
  const std::int64_t patch = times(shape.in, product(filter(shape), 0));
  return Bytes{std::min(kLimit, times(times(patch, product(result, 2)), sizeof(float)))};
}

Kernel& describe(Kernel& kernel, const Convolution::Shape& shape) {
  kernel.attr("stride", Dims(shape.space, shape.stride));
  kernel.attr("padding", Dims(shape.space, padding(shape)));
  if (shape.transposed) kernel.attr("transposed", true);
  return kernel;
}

// "aten::max_pool2d_with_indices" or its 3d sister.
std::string max_pool_op(std::size_t space, std::string_view tail) {
  return "aten::max_pool" + std::to_string(space) + "d_with_indices" + std::string(tail);
}

Kernel& describe(Kernel& kernel, const Pooling& pooling, std::size_t space) {
  return kernel.attr("kernel_size", Dims(space, pooling.kernel))
      .attr("stride", Dims(space, pooling.stride))
      .attr("padding", Dims(space, pooling.padding));
}

}  // namespace

Convolution::Convolution(TrainingStep& step, std::string layer_name, const Shape& layer_shape)
    : name(std::move(layer_name)),
      shape(layer_shape),
      weight(step.weight(name + ".weight", weight_dims(shape))) {
  if (shape.bias) bias = step.weight(name + ".bias", {shape.out});
}

TensorId Convolution::apply(TrainingStep& step, TensorId x) const {
  const Dims x_dims = step.dims(x);
  const Dims y_dims = result_dims(shape, x_dims);
  // Each element of the side with fewer of them meets the whole filter.
  const double flops = shape.transposed
                           ? multiply_adds(x_dims, {shape.out, product(filter(shape), 0)})
                           : multiply_adds(y_dims, {shape.in, product(filter(shape), 0)});
  const Bytes workspace = patch_workspace(shape, shape.transposed ? x_dims : y_dims);
  Kernel kernel = step.kernel("aten::convolution", {x, weight, bias.valid() ? bias : absent()});
  const TensorId y =
      describe(kernel, shape).workspace(workspace).flops(flops).makes(name, f32(y_dims));

  const auto rule = [&step, x, workspace, flops, layer_shape = shape, w = weight,
                     b = bias](TensorId g) {
    const bool for_x = step.wants_gradient(x);
    Kernel backward = step.kernel("aten::convolution_backward", {g, x, w});
    describe(backward, layer_shape).attr("output_mask", {for_x, true, b.valid()});
    // One gradient or two, each as much work as the forward pass; the weight's is summed up in
    // parts, which are kept apart until the end.
    const Bytes parts = extent(step.type(w)).value_or(Bytes{});
    backward.flops(for_x ? 2 * flops : flops).workspace(workspace + parts);
    TensorId grad_x;
    TensorId grad_b;
    if (for_x) grad_x = backward.makes(step.gradient_name(x), f32(step.dims(x)));
    const TensorId grad_w = backward.makes(step.gradient_name(w), step.type(w));
    if (b.valid()) grad_b = backward.makes(step.gradient_name(b), step.type(b));
    if (for_x) step.add_gradient(x, grad_x);
    step.add_gradient(w, grad_w);
    if (b.valid()) step.add_gradient(b, grad_b);
  };
  step.differentiate({y}, {x, weight, bias}, rule);
  return y;
}

BatchNorm::BatchNorm(TrainingStep& step, std::string layer_name, std::int64_t channels)
    : name(std::move(layer_name)),
      weight(step.weight(name + ".weight", {channels})),
      bias(step.weight(name + ".bias", {channels})),
      mean(step.buffer(name + ".running_mean", {channels})),
      variance(step.buffer(name + ".running_var", {channels})) {}

TensorId BatchNorm::apply(TrainingStep& step, TensorId x) const {
  const TensorType statistics = step.type(weight);
  Kernel kernel = step.kernel("aten::_batch_norm_with_update",
                              {x, weight, bias, update(mean), update(variance)});
  kernel.attr("momentum", kStatisticsMomentum).attr("eps", kEpsilon);
  const TensorId y = kernel.makes(name, f32(step.dims(x)));
  const TensorId save_mean = kernel.makes(name + ".save_mean", statistics);
  const TensorId save_rstd = kernel.makes(name + ".save_rstd", statistics);
  // Libraries ask for a reserve of 0 bytes in this layout.
  const TensorId reserve = kernel.makes(name + ".reserve", tensor_type(DType::kU8, {0}));
  const TensorId next_mean = kernel.makes_next(mean);
  const TensorId next_variance = kernel.makes_next(variance);

  const auto rule = [&step, x, w = weight, b = bias, next_mean, next_variance, save_mean, save_rstd,
                     reserve](TensorId g) {
    Kernel backward = step.kernel("aten::batch_norm_backward", {g, x, w, next_mean, next_variance,
                                                                save_mean, save_rstd, reserve});
    backward.attr("update", true).attr("eps", kEpsilon);
    const TensorId grad_x = backward.makes(step.gradient_name(x), f32(step.dims(x)));
    const TensorId grad_w = backward.makes(step.gradient_name(w), step.type(w));
    const TensorId grad_b = backward.makes(step.gradient_name(b), step.type(b));
    step.add_gradient(x, grad_x);
    step.add_gradient(w, grad_w);
    step.add_gradient(b, grad_b);
  };
  step.differentiate({y}, {x, weight, bias}, rule);
  return y;
}

TensorId max_pool(TrainingStep& step, const std::string& name, TensorId x, const Pooling& pooling) {
  Dims dims = step.dims(x);
  const std::size_t space = dims.size() - 2;
  for (std::size_t i = 2; i < dims.size(); ++i) {
    dims[i] = (dims[i] + 2 * pooling.padding - pooling.kernel) / pooling.stride + 1;
  }
  Kernel kernel = step.kernel(max_pool_op(space, ""), {x});
  describe(kernel, pooling, space);
  const TensorId y = kernel.makes(name, f32(dims));
  const TensorId indices = kernel.makes(name + ".indices", tensor_type(DType::kI64, dims));

  step.differentiate({y}, {x}, [&step, x, indices, pooling, space](TensorId g) {
    Kernel backward = step.kernel(max_pool_op(space, "_backward"), {g, x, indices});
    describe(backward, pooling, space);
    step.add_gradient(x, backward.makes(step.gradient_name(x), f32(step.dims(x))));
  });
  return y;
}

TensorId global_average(TrainingStep& step, const std::string& name, TensorId x) {
  const Dims dims = step.dims(x);
  Dims ones = dims;
  Dims space;
  for (std::size_t i = 2; i < dims.size(); ++i) {
    ones[i] = 1;
    space.push_back(static_cast<std::int64_t>(i));
  }
  const TensorId average = step.kernel("aten::mean.dim", {x})
                               .attr("dim", space)
                               .attr("keepdim", true)
                               .makes(name, f32(ones));
  const TensorId y = viewed(step, name + ".flat", average, {dims[0], dims[1]});

  step.differentiate({y}, {x}, [&step, x, average, dims, ones](TensorId g) {
    const std::string grad = "gradients/" + step.name(average);
    const TensorId wide = expanded(step, grad + ".expand", viewed(step, grad, g, ones), dims);
    step.add_gradient(x, step.kernel("aten::div.Scalar", {wide})
                             .attr("other", product(dims, 2))
                             .makes(step.gradient_name(x), f32(dims)));
  });
  return y;
}

TensorId concatenate(TrainingStep& step, const std::string& name, TensorId a, TensorId b) {
  Dims dims = step.dims(a);
  const std::int64_t of_a = dims[1];
  const std::int64_t of_b = step.dims(b)[1];
  dims[1] += of_b;
  const TensorId y =
      step.kernel("aten::cat", {list_of({a, b})}).attr("dim", 1).makes(name, f32(dims));
  step.differentiate({y}, {a, b}, [&step, a, b, of_a, of_b](TensorId g) {
    if (step.wants_gradient(a)) {
      step.add_gradient(a, sliced(step, step.gradient_name(a), g, 1, 0, of_a));
    }
    if (step.wants_gradient(b)) {
      step.add_gradient(b, sliced(step, step.gradient_name(b), g, 1, of_a, of_b));
    }
  });
  return y;
}

}  // namespace ebb::examples
