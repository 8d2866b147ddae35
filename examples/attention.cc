#include <cmath>
#include <limits>

#include "examples/token_layers.h"
#include "examples/views.h"

namespace ebb::examples {
namespace {

TensorId exchange(TrainingStep& step, const std::string& name, TensorId x, std::size_t first,
                  std::size_t second) {
  const TensorId y = transposed(step, name, x, first, second);
  step.differentiate({y}, {x}, [&step, x, first, second](TensorId g) {
    step.add_gradient(x, transposed(step, step.gradient_name(x), g, first, second));
  });
  return y;
}

// Splits the dimensions of a matrix, which is possible without a copy even for one of the thirds.
TensorId split_dims(TrainingStep& step, const std::string& name, TensorId x, const Dims& dims) {
  const TensorId y = viewed(step, name, x, dims);
  step.differentiate({y}, {x}, [&step, x](TensorId g) {
    step.add_gradient(x, reshape(step, step.gradient_name(x), g, step.dims(x)));
  });
  return y;
}

struct Thirds {
  TensorId queries;
  TensorId keys;
  TensorId values;
};

Thirds split(TrainingStep& step, const std::string& name, TensorId qkv, std::int64_t width) {
  const TensorType type = step.type(qkv);
  const TensorType third = slice_type(type, 1, width);
  Kernel kernel = step.kernel("aten::split.Tensor", {qkv});
  kernel.attr("split_size", width).attr("dim", 1);
  const TensorId q = kernel.makes_view(name + ".q", third, qkv);
  const TensorId k = kernel.makes_view(name + ".k", third, qkv, slice_offset(type, 1, width));
  const TensorId v =
      kernel.makes_view(name + ".v", third, qkv, slice_offset(type, 1, times(2, width)));
  step.differentiate({q, k, v}, {qkv}, [&step, qkv, k, v](TensorId gradient_of_q) {
    const std::vector<BuilderOperand> thirds = {gradient_of_q, step.gradient(k), step.gradient(v)};
    step.add_gradient(qkv, step.kernel("aten::cat", {list_of(thirds)})
                               .attr("dim", 1)
                               .makes(step.gradient_name(qkv), f32(step.dims(qkv))));
  });
  return {q, k, v};
}

// [batch * sequence, width] to [batch * heads, sequence, width / heads].
TensorId split_heads(TrainingStep& step, TensorId x, const AttentionShape& shape) {
  const std::string name = step.name(x);
  const std::int64_t head = shape.width / shape.heads;
  const TensorId parts =
      split_dims(step, name + ".heads", x, {shape.batch, shape.sequence, shape.heads, head});
  return reshape(step, name + ".rows", exchange(step, name + ".turned", parts, 1, 2),
                 {times(shape.batch, shape.heads), shape.sequence, head});
}

TensorId join_heads(TrainingStep& step, const std::string& name, TensorId x,
                    const AttentionShape& shape) {
  const std::int64_t head = shape.width / shape.heads;
  const TensorId parts =
      split_dims(step, name + ".heads", x, {shape.batch, shape.heads, shape.sequence, head});
  return reshape(step, name, exchange(step, name + ".turned", parts, 1, 2),
                 {times(shape.batch, shape.sequence), shape.width});
}

// Products of matrices in pairs: [n, a, b] times [n, b, c].
TensorId multiply(TrainingStep& step, const std::string& name, TensorId a, TensorId b) {
  const Dims a_dims = step.dims(a);
  const Dims dims = {a_dims[0], a_dims[1], step.dims(b)[2]};
  const double flops = multiply_adds(dims, {a_dims[2]});
  const TensorId y = step.kernel("aten::bmm", {a, b}).flops(flops).makes(name, f32(dims));
  step.differentiate({y}, {a, b}, [&step, a, b, flops](TensorId g) {
    const TensorId a_turned = transposed(step, step.name(a) + ".t", a, 1, 2);
    step.add_gradient(b, step.kernel("aten::bmm", {a_turned, g})
                             .flops(flops)
                             .makes(step.gradient_name(b), f32(step.dims(b))));
    const TensorId b_turned = transposed(step, step.name(b) + ".t", b, 1, 2);
    step.add_gradient(a, step.kernel("aten::bmm", {g, b_turned})
                             .flops(flops)
                             .makes(step.gradient_name(a), f32(step.dims(a))));
  });
  return y;
}

TensorId scale(TrainingStep& step, const std::string& name, TensorId x, double factor) {
  const TensorId y =
      step.kernel("aten::mul.Scalar", {x}).attr("other", factor).makes(name, step.type(x));
  step.differentiate({y}, {x}, [&step, x, factor](TensorId g) {
    step.add_gradient(x, step.kernel("aten::mul.Scalar", {g})
                             .attr("other", factor)
                             .makes(step.gradient_name(x), step.type(x)));
  });
  return y;
}

TensorId hide(TrainingStep& step, const std::string& name, TensorId x, TensorId mask) {
  const auto filled = [&step, mask](const std::string& result, TensorId of, double value) {
    return step.kernel("aten::masked_fill.Scalar", {of, mask})
        .attr("value", value)
        .makes(result, f32(step.dims(of)));
  };
  const TensorId y = filled(name, x, -std::numeric_limits<double>::infinity());
  step.differentiate({y}, {x}, [&step, x, filled](TensorId g) {
    step.add_gradient(x, filled(step.gradient_name(x), g, 0.0));
  });
  return y;
}

TensorId softmax(TrainingStep& step, const std::string& name, TensorId x) {
  const TensorId y =
      step.kernel("aten::_softmax", {x}).attr("dim", -1).makes(name, f32(step.dims(x)));
  step.differentiate({y}, {x}, [&step, x, y](TensorId g) {
    step.add_gradient(x, step.kernel("aten::_softmax_backward_data", {g, y})
                             .attr("dim", -1)
                             .makes(step.gradient_name(x), f32(step.dims(x))));
  });
  return y;
}

}  // namespace

TensorId attention(TrainingStep& step, const std::string& name, TensorId qkv, TensorId mask,
                   const AttentionShape& shape) {
  const auto [queries, keys, values] = split(step, name, qkv, shape.width);
  const TensorId q = split_heads(step, queries, shape);
  const TensorId k = split_heads(step, keys, shape);
  const TensorId v = split_heads(step, values, shape);
  const std::int64_t head = shape.width / shape.heads;
  TensorId scores =
      multiply(step, name + ".scores", q, exchange(step, step.name(keys) + ".columns", k, 1, 2));
  scores = scale(step, name + ".scaled", scores, 1 / std::sqrt(static_cast<double>(head)));
  scores = softmax(step, name + ".softmax", hide(step, name + ".masked", scores, mask));
  scores = dropout(step, name + ".dropout", scores, shape.dropout);
  return join_heads(step, name + ".out", multiply(step, name + ".mixed", scores, v), shape);
}

}  // namespace ebb::examples
