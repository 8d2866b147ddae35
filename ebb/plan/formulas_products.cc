// Operators that multiply: matrix products, convolutions, attention.
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

Work convolution_pass(const Operation& op, const TensorType* swept, const TensorType* filter,
                      double channels) {
  return product(WorkKind::kConvolution, filter_flops(swept, filter, channels), all_bytes(op),
                 filter);
}

// Pairs of a query and a key; of a causal mask's the half is computed.
double pairs(const Operation& op, const TensorType* q, const TensorType* k) {
  const double all = dim(q, 0) * dim(q, 1) * dim(q, -2) * dim(k, -2);
  return op.flag("is_causal", false) ? all / 2 : all;
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
  const TensorType* swept = op.flag("transposed", false) ? op.operand(0) : op.result(0);
  return convolution_pass(op, swept, filter, dim(filter, 0));
}

Work convolution_backward(const Operation& op) {
  const TensorType* filter = op.operand(2);
  const TensorType* swept = op.operand(op.flag("transposed", false) ? 1 : 0);
  const double pass = filter_flops(swept, filter, dim(filter, 0));
  Work work = product(WorkKind::kConvolution, 0, op.all_result_bytes(), filter);
  if (op.flag_in("output_mask", 0)) {  // dx, of dy and w
    work.flops += pass;
    work.bytes += op.operand_bytes(0) + op.operand_bytes(2);
  }
  if (op.flag_in("output_mask", 1)) {  // dw, of dy and x
    work.flops += pass;
    work.bytes += op.operand_bytes(0) + op.operand_bytes(1);
  }
  if (op.flag_in("output_mask", 2)) work.bytes += op.operand_bytes(0);  // db, of dy
  return work;
}

Work tf_convolution(const Operation& op) {
  return convolution_pass(op, op.result(0), op.operand(1), dim(op.operand(1), -1));
}
Work tf_convolution_input(const Operation& op) {
  return convolution_pass(op, op.operand(2), op.operand(1), dim(op.operand(1), -1));
}
Work tf_convolution_filter(const Operation& op) {
  return convolution_pass(op, op.operand(2), op.result(0), dim(op.result(0), -1));
}

// Each output channel has a filter of its own, of k * k weights.
Work tf_depthwise(const Operation& op) {
  return convolution_pass(op, op.result(0), op.operand(1),
                          dim(op.operand(1), -1) * dim(op.operand(1), -2));
}
Work tf_depthwise_input(const Operation& op) {
  return convolution_pass(op, op.operand(2), op.operand(1),
                          dim(op.operand(1), -1) * dim(op.operand(1), -2));
}
Work tf_depthwise_filter(const Operation& op) {
  return convolution_pass(op, op.operand(2), op.result(0),
                          dim(op.result(0), -1) * dim(op.result(0), -2));
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

}  // namespace ebb::formulas
