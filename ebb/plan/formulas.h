// The formulas of the roofline: what an operation computes and moves, by families of operators that
// do the same. Each takes the operands as PyTorch and TensorFlow order them; what it reads from
// them is said where it is declared. N(t) is the number of elements of t, B(t) its bytes.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>

#include "ebb/plan/operation.h"
#include "ebb/plan/roofline.h"

namespace ebb {

using Formula = Work (*)(const Operation&);

// Operators that have one formula.
struct FormulaFamily {
  Formula formula;
  std::string_view names;  // "abs add ..."; without their namespace
};

class FormulaTable {
 public:
  FormulaTable(std::string_view prefix, std::span<const FormulaFamily> families);

  // nullptr when there is none; the name has the prefix.
  [[nodiscard]] Formula find(std::string_view op) const;

 private:
  std::string_view prefix_;
  std::unordered_map<std::string_view, Formula> formulas_;
};

// The formula of an operator, "aten::add.Tensor" or "tf::AddV2"; nullptr when it has none.
Formula find_aten_formula(std::string_view op);
Formula find_tensorflow_formula(std::string_view op);

namespace formulas {

Work nothing(const Operation& op);

// Every operand is read once, every result written once; one operation for each element. In-place
// operators too: their result is the operand that they update.
Work elementwise(const Operation& op);
// Operands and results the same; one operation for each element of the first operand.
Work reduction(const Operation& op);
// The results are written; operands only give shapes.
Work fill(const Operation& op);
Work copy_into(const Operation& op);  // target, source: the target is not read

// Products (formulas_products.cc). A multiplication and an addition are two operations.
Work mm(const Operation& op);     // a, b: matrices, either of them turned
Work addmm(const Operation& op);  // c, a, b
Work bmm(const Operation& op);    // a, b: k is the last dimension of a
Work baddbmm(const Operation& op);
Work tf_matmul(const Operation& op);              // transpose_a, or adj_x: k is the one before
Work convolution(const Operation& op);            // x, w, bias?
Work convolution_backward(const Operation& op);   // dy, x, w; by output_mask
Work tf_convolution(const Operation& op);         // x, w[k..., in, out]
Work tf_convolution_input(const Operation& op);   // sizes, w, dy
Work tf_convolution_filter(const Operation& op);  // x, sizes, dy
// Whether the kernel gets images with channels first on a GPU: as it says itself, or in f32, where
// TensorFlow's layout optimizer sees to it after whoever reads a file.
bool tf_is_channels_first(const Operation& op, const TensorType* filter);
Work tf_depthwise(const Operation& op);  // x, w[k, k, in, times]
Work tf_depthwise_input(const Operation& op);
Work tf_depthwise_filter(const Operation& op);
Work attention(const Operation& op);           // q, k, v as [batch, heads, length, width]
Work attention_backward(const Operation& op);  // dout, q, k, v, ...

Work rnn_layer(const Operation& op);  // x, w, w, ...: one layer of oneDNN's
Work rnn_layer_backward(const Operation& op);
Work rnn(const Operation& op);  // x, [w, w, b, b, ...], ...: all layers of cuDNN's
Work rnn_backward(const Operation& op);

// What memory limits (formulas_memory.cc).
Work batch_norm(const Operation& op);           // x, ...: x is read twice where it is training
Work batch_norm_backward(const Operation& op);  // dy, x, ...: both are read twice
Work layer_norm(const Operation& op);           // x, ...: a row stays on the chip
Work layer_norm_backward(const Operation& op);  // dy, x, ...: once for dx, once for dw and db
Work pool_backward(const Operation& op);        // dy, x, indices?: x is not read
Work tf_pool_3d(const Operation& op);           // and gradients; channels last are turned and back
Work nll_loss(const Operation& op);             // probabilities, targets: one for each target
Work nll_loss_backward(const Operation& op);    // dy, probabilities, targets
Work gather(const Operation& op);               // source, indices...: as much as the result has
Work add_rows(const Operation& op);             // source, indices: rows of a smaller result
Work scatter(const Operation& op);              // self, indices, source
// TensorFlow's updates: variables are handles, whose size is that of the gradient.
template <int Variables>
Work tf_apply(const Operation& op);
Work tf_assign(const Operation& op);      // handle, value
Work tf_assign_add(const Operation& op);  // handle, value

}  // namespace formulas
}  // namespace ebb
