// Operations that move nothing: their results share the bytes of their operand. They stand in the
// forward pass as in gradients and do not differentiate by themselves.
#pragma once

#include <cstddef>
#include <string>

#include "examples/training_step.h"

namespace ebb::examples {

// Whether the elements lie row by row, without gaps.
bool is_contiguous(const TrainingStep& step, TensorId x);

// The matrix, its two dimensions exchanged (aten::t).
TensorId transposed(TrainingStep& step, const std::string& name, TensorId x);
// Two dimensions of any tensor exchanged (aten::transpose.int).
TensorId transposed(TrainingStep& step, const std::string& name, TensorId x, std::size_t first,
                    std::size_t second);
// Other dimensions for the same elements in the same order. `x` must be contiguous, or split its
// dimensions only: then the strides of the parts follow from those of the whole.
TensorId viewed(TrainingStep& step, const std::string& name, TensorId x, const Dims& dims);
// `length` elements of one dimension, from `start` on.
TensorId sliced(TrainingStep& step, const std::string& name, TensorId x, std::size_t dim,
                std::int64_t start, std::int64_t length);
// Dimensions of one element repeated, by a stride of 0.
TensorId expanded(TrainingStep& step, const std::string& name, TensorId x, const Dims& dims);

// The type of `length` elements of one dimension of `type`, and where they begin.
TensorType slice_type(const TensorType& type, std::size_t dim, std::int64_t length);
Bytes slice_offset(const TensorType& type, std::size_t dim, std::int64_t start);

}  // namespace ebb::examples
