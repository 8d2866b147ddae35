// Operators that memory limits: what they compute is small beside what they move.
#include <algorithm>

#include "ebb/plan/formulas.h"

namespace ebb::formulas {
namespace {

// What memory gives at once; a single element costs as much.
constexpr double kSector = 32;

Work memory_bound(double flops, double bytes, const TensorType* type) {
  return Work{.flops = flops,
              .bytes = bytes,
              .kind = WorkKind::kMemory,
              .dtype = type == nullptr ? DType::kF32 : type->dtype};
}

}  // namespace

Work nothing(const Operation& /*op*/) { return {}; }

Work elementwise(const Operation& op) {
  return memory_bound(op.all_result_elements(), op.all_operand_bytes() + op.all_result_bytes(),
                      op.result(0));
}

// cuDNN pools volumes with channels first only: what lies otherwise is turned in the kernel,
// operands and results.
Work tf_pool_3d(const Operation& op) {
  Work work = elementwise(op);
  if (!op.text("data_format").starts_with("NC") && !op.is_on_cpu()) work.bytes *= 3;
  return work;
}

Work reduction(const Operation& op) {
  return memory_bound(element_count(op.operand(0)), op.all_operand_bytes() + op.all_result_bytes(),
                      op.operand(0));
}

Work fill(const Operation& op) {
  return memory_bound(op.all_result_elements(), op.all_result_bytes(), op.result(0));
}

Work copy_into(const Operation& op) {
  return memory_bound(0, op.operand_bytes(1) + op.all_result_bytes(), op.result(0));
}

Work batch_norm(const Operation& op) {
  const bool is_training = op.flag("training", op.flag("is_training", true));
  return memory_bound(
      8 * element_count(op.operand(0)),
      op.all_operand_bytes() + op.all_result_bytes() + (is_training ? op.operand_bytes(0) : 0),
      op.operand(0));
}

Work batch_norm_backward(const Operation& op) {
  return memory_bound(
      12 * element_count(op.operand(0)),
      op.all_operand_bytes() + op.all_result_bytes() + op.operand_bytes(0) + op.operand_bytes(1),
      op.operand(0));
}

Work layer_norm(const Operation& op) {
  return memory_bound(8 * element_count(op.operand(0)),
                      op.all_operand_bytes() + op.all_result_bytes(), op.operand(0));
}

Work layer_norm_backward(const Operation& op) { return batch_norm_backward(op); }

Work pool_backward(const Operation& op) {
  return memory_bound(op.all_result_elements(),
                      op.all_operand_bytes() - op.operand_bytes(1) + op.all_result_bytes(),
                      op.operand(0));
}

Work nll_loss(const Operation& op) {
  return memory_bound(element_count(op.operand(1)),
                      op.operand_bytes(1) + kSector * element_count(op.operand(1)), op.operand(0));
}

Work nll_loss_backward(const Operation& op) {
  return memory_bound(
      element_count(op.operand(2)),
      op.operand_bytes(2) + kSector * element_count(op.operand(2)) + op.all_result_bytes(),
      op.operand(0));
}

Work gather(const Operation& op) {
  return memory_bound(0, op.all_operand_bytes() - op.operand_bytes(0) + 2 * op.all_result_bytes(),
                      op.result(0));
}

Work add_rows(const Operation& op) {
  const double source = op.operand_bytes(0);
  const double result = op.all_result_bytes();
  return memory_bound(element_count(op.operand(0)),
                      op.all_operand_bytes() + result + 2 * std::min(source, result),
                      op.operand(0));
}

Work scatter(const Operation& op) {
  // In place only what is written is touched; otherwise the whole is copied first.
  const double copied = op.updates_something() ? 0 : op.operand_bytes(0) + op.all_result_bytes();
  const double rest = op.all_operand_bytes() - op.operand_bytes(0);  // indices and source
  return memory_bound(0, copied + 2 * rest, op.operand(0));
}

template <int Variables>
Work tf_apply(const Operation& op) {
  // Each variable is read and written, the gradient read; all are as large as the gradient, which
  // is the largest of what is no handle.
  const TensorType* gradient = op.largest_operand();
  return memory_bound(4 * Variables * element_count(gradient),
                      (2 * Variables + 1) * bytes_moved(gradient), gradient);
}
template Work tf_apply<1>(const Operation& op);
template Work tf_apply<2>(const Operation& op);
template Work tf_apply<3>(const Operation& op);
template Work tf_apply<4>(const Operation& op);

Work tf_assign(const Operation& op) {
  return memory_bound(0, 2 * op.operand_bytes(1), op.operand(1));
}

Work tf_assign_add(const Operation& op) {
  return memory_bound(element_count(op.operand(1)), 3 * op.operand_bytes(1), op.operand(1));
}

}  // namespace ebb::formulas
