// Operators that multiply: matrix products, convolutions, attention.
#include <algorithm>
#include <cmath>

#include "ebb/plan/formulas.h"

namespace ebb::formulas {
namespace {

Work product(WorkKind kind, double flops, double bytes, const TensorType* type) {
  return Work{.flops = flops,
              .bytes = bytes,
              .kind = kind,
              .dtype = type == nullptr ? DType::kF32 : type->dtype};
}

double all_bytes(const Operation& op) { return op.all_operand_bytes() + op.all_result_bytes(); }

// A result of which each element is a sum of k products.
Work matrix_product(const Operation& op, double k, const TensorType* a) {
  return product(WorkKind::kMatmul, 2 * op.all_result_elements() * k, all_bytes(op), a);
}

// One pass of a convolution: each element of `swept` (the output; the input when transposed) meets
// the filter of its channel.
double filter_flops(const TensorType* swept, const TensorType* filter, double channels) {
  return channels == 0 ? 0 : 2 * element_count(swept) * element_count(filter) / channels;
}

// Whether each channel is filtered by itself: image [batch, in, ...], filter [out, in / groups,
// ...].
bool is_depthwise(const TensorType* image, const TensorType* filter) {
  return dim(filter, 1) == 1 && dim(image, 1) > 1;
}

// Nothing is summed over channels there, and kernels for products are no help.
Work depthwise_or_not(bool is_depthwise, Work work) {
  if (!is_depthwise) return work;
  work.kind = WorkKind::kMemory;
  work.repacked_bytes = 0;
  return work;
}

// Of PyTorch's image [batch, channels, ...]: whether the channels of a point lie apart.
bool is_channels_first(const TensorType* image) {
  if (image == nullptr || image->dims.size() < 3 || image->dims[1] == 1) return false;
  const bool is_one_point =
      std::all_of(image->dims.begin() + 2, image->dims.end(), [](auto each) { return each == 1; });
  return !is_one_point && (image->strides.empty() || image->strides[1] != 1);
}

Work tf_convolution_pass(const Operation& op, const TensorType* swept, const TensorType* filter,
                         double channels) {
  Work work =
      product(WorkKind::kConvolution, filter_flops(swept, filter, channels), all_bytes(op), filter);
  // Also for one point by one point: there it can do without (workspace_tensorflow.h), and takes
  // the memory where there is some.
  if (tf_is_channels_first(op, filter)) {
    work.repacked_bytes = 2 * (work.bytes - bytes_moved(filter));
  }
  return work;
}

Work tf_depthwise_pass(const Operation& op, const TensorType* swept, const TensorType* filter) {
  const double channels = dim(filter, -1) * dim(filter, -2);
  return depthwise_or_not(true, tf_convolution_pass(op, swept, filter, channels));
}

// Pairs of a query and a key; of a causal mask's the half is computed.
double pairs(const Operation& op, const TensorType* q, const TensorType* k) {
  const double all = dim(q, 0) * dim(q, 1) * dim(q, -2) * dim(k, -2);
  return op.flag("is_causal", false) ? all / 2 : all;
}

// The weights are the matrices among these operands; sequences and states have three dimensions.
Work recurrence(const Operation& op, std::size_t begin, std::size_t end, double passes) {
  const TensorType* x = op.operand(0);
  double weights = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const TensorType* each = op.operand(i);
    if (each != nullptr && each->dims.size() == 2) weights += element_count(each);
  }
  const double steps = dim(x, -1) == 0 ? 0 : element_count(x) / dim(x, -1);
  return product(WorkKind::kMatmul, passes * 2 * steps * weights, all_bytes(op), x);
}

}  // namespace

// N(a) N(b) / N(c) = (m k) (k n) / (m n) = k^2, whichever of them is turned.
Work mm(const Operation& op) {
  const double result = op.all_result_elements();
  const double k =
      result == 0 ? 0
                  : std::sqrt(element_count(op.operand(0)) * element_count(op.operand(1)) / result);
  return matrix_product(op, k, op.operand(0));
}

Work addmm(const Operation& op) {
  return matrix_product(op, dim(op.operand(1), -1), op.operand(1));
}
Work bmm(const Operation& op) { return matrix_product(op, dim(op.operand(0), -1), op.operand(0)); }
Work baddbmm(const Operation& op) { return addmm(op); }

Work tf_matmul(const Operation& op) {
  const bool is_turned = op.flag("transpose_a", op.flag("adj_x", false));
  return matrix_product(op, dim(op.operand(0), is_turned ? -2 : -1), op.operand(0));
}

Work convolution(const Operation& op) {
  const TensorType* filter = op.operand(1);  // [out, in / groups, k...], transposed [in, ...]
  const bool is_transposed = op.flag("transposed", false);
  const TensorType* swept = is_transposed ? op.operand(0) : op.result(0);
  Work work = product(WorkKind::kConvolution, filter_flops(swept, filter, dim(filter, 0)),
                      all_bytes(op), filter);
  if (is_channels_first(op.operand(0)) || is_channels_first(op.result(0))) {
    work.repacked_bytes = 2 * (op.operand_bytes(0) + op.result_bytes(0));
  }
  return depthwise_or_not(!is_transposed && is_depthwise(op.operand(0), filter), work);
}

Work convolution_backward(const Operation& op) {
  // A call for dx alone may do without x, and has its shape from dx.
  const TensorType* image = op.operand(1) != nullptr ? op.operand(1) : op.result(0);
  const TensorType* filter = op.operand(2);
  const bool is_transposed = op.flag("transposed", false);
  const TensorType* swept = is_transposed ? image : op.operand(0);
  const double pass = filter_flops(swept, filter, dim(filter, 0));
  const double images = op.operand_bytes(0) + bytes_moved(image);  // that each pass reads or writes
  Work work = product(WorkKind::kConvolution, 0, 0, filter);
  for (const std::size_t of :
       {std::size_t{0}, std::size_t{1}}) {  // dx, of dy and w; dw, of dy and x
    if (!op.flag_in("output_mask", of)) continue;
    work.flops += pass;
    work.bytes += images + op.operand_bytes(2);
    if (is_channels_first(image) || is_channels_first(op.operand(0))) {
      work.repacked_bytes += 2 * images;
    }
  }
  if (op.flag_in("output_mask", 2)) work.bytes += op.operand_bytes(0);  // db, of dy
  return depthwise_or_not(!is_transposed && is_depthwise(image, filter), work);
}

bool tf_is_channels_first(const Operation& op, const TensorType* filter) {
  return op.text("data_format").starts_with("NC") ||
         (filter != nullptr && filter->dtype == DType::kF32 && !op.is_on_cpu());
}

Work tf_convolution(const Operation& op) {
  return tf_convolution_pass(op, op.result(0), op.operand(1), dim(op.operand(1), -1));
}
Work tf_convolution_input(const Operation& op) {
  return tf_convolution_pass(op, op.operand(2), op.operand(1), dim(op.operand(1), -1));
}
Work tf_convolution_filter(const Operation& op) {
  return tf_convolution_pass(op, op.operand(2), op.result(0), dim(op.result(0), -1));
}

// Each channel of the output has a filter of its own, of k * k weights.
Work tf_depthwise(const Operation& op) {
  return tf_depthwise_pass(op, op.result(0), op.operand(1));
}
Work tf_depthwise_input(const Operation& op) {
  return tf_depthwise_pass(op, op.operand(2), op.operand(1));
}
Work tf_depthwise_filter(const Operation& op) {
  return tf_depthwise_pass(op, op.operand(2), op.result(0));
}

// Two products, q k' and p v. The probabilities never leave the chip.
Work attention(const Operation& op) {
  const TensorType* q = op.operand(0);
  const TensorType* v = op.operand(2);
  return product(WorkKind::kAttention, 2 * pairs(op, q, op.operand(1)) * (dim(q, -1) + dim(v, -1)),
                 all_bytes(op), q);
}

// Five: q k' again, dv = p' do, dp = do v', dq = ds k, dk = ds' q.
Work attention_backward(const Operation& op) {
  const TensorType* q = op.operand(1);
  const TensorType* v = op.operand(3);
  return product(WorkKind::kAttention,
                 2 * pairs(op, q, op.operand(2)) * (3 * dim(q, -1) + 2 * dim(v, -1)), all_bytes(op),
                 q);
}

// Every step of every sequence meets all weights; backward twice, for dx and dw.
Work rnn_layer(const Operation& op) { return recurrence(op, 1, 3, 1); }
Work rnn_layer_backward(const Operation& op) { return recurrence(op, 1, 3, 2); }
Work rnn(const Operation& op) { return recurrence(op, 1, op.operand_count(), 1); }
Work rnn_backward(const Operation& op) { return recurrence(op, 1, op.operand_count(), 2); }

}  // namespace ebb::formulas
