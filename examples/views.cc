#include "examples/views.h"

#include <utility>

namespace ebb::examples {
namespace {

Dims strides_of(const TensorType& type) {
  return type.strides.empty() ? row_major_strides(type.dims) : type.strides;
}

TensorType strided(const TensorType& like, Dims dims, Dims strides) {
  TensorType type = like;
  type.dims = std::move(dims);
  type.strides = std::move(strides);
  return type;
}

// The strides of `dims`, each a part of one dimension of the type, as [6,4] is split into [2,3,4].
// Parts are matched from the right; a part of one element goes with the dimension right of it.
Dims split_strides(const TensorType& type, const Dims& dims) {
  const Dims whole_strides = strides_of(type);
  Dims strides(dims.size());
  std::size_t whole = type.dims.size() - 1;
  std::int64_t covered = 1;  // elements of the whole dimension that its parts to the right take
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (covered >= type.dims[whole] && dims[i] != 1 && whole > 0) {
      --whole;
      covered = 1;
    }
    strides[i] = times(whole_strides[whole], covered);
    covered = times(covered, dims[i]);
  }
  return strides;
}

TensorId transposed(TrainingStep& step, const std::string& name, TensorId x, std::size_t first,
                    std::size_t second, Kernel kernel) {
  const TensorType type = step.type(x);
  Dims dims = type.dims;
  Dims strides = strides_of(type);
  std::swap(dims[first], dims[second]);
  std::swap(strides[first], strides[second]);
  return kernel.makes_view(name, strided(type, std::move(dims), std::move(strides)), x);
}

}  // namespace

bool is_contiguous(const TrainingStep& step, TensorId x) { return step.type(x).strides.empty(); }

TensorId transposed(TrainingStep& step, const std::string& name, TensorId x) {
  return transposed(step, name, x, 0, 1, step.kernel("aten::t", {x}));
}

TensorId transposed(TrainingStep& step, const std::string& name, TensorId x, std::size_t first,
                    std::size_t second) {
  Kernel kernel = step.kernel("aten::transpose.int", {x});
  kernel.attr("dim0", static_cast<std::int64_t>(first));
  kernel.attr("dim1", static_cast<std::int64_t>(second));
  return transposed(step, name, x, first, second, kernel);
}

TensorId viewed(TrainingStep& step, const std::string& name, TensorId x, const Dims& dims) {
  const TensorType type = step.type(x);
  return step.kernel("aten::view", {x})
      .attr("size", dims)
      .makes_view(
          name, strided(type, dims, type.strides.empty() ? Dims() : split_strides(type, dims)), x);
}

TensorType slice_type(const TensorType& type, std::size_t dim, std::int64_t length) {
  Dims dims = type.dims;
  dims[dim] = length;
  return strided(type, std::move(dims), strides_of(type));
}

Bytes slice_offset(const TensorType& type, std::size_t dim, std::int64_t start) {
  return Bytes{times(times(start, strides_of(type)[dim]), element_size(type.dtype))};
}

TensorId sliced(TrainingStep& step, const std::string& name, TensorId x, std::size_t dim,
                std::int64_t start, std::int64_t length) {
  const TensorType type = step.type(x);
  return step.kernel("aten::slice.Tensor", {x})
      .attr("dim", static_cast<std::int64_t>(dim))
      .attr("start", start)
      .attr("end", start + length)
      .makes_view(name, slice_type(type, dim, length), x, slice_offset(type, dim, start));
}

TensorId expanded(TrainingStep& step, const std::string& name, TensorId x, const Dims& dims) {
  const TensorType type = step.type(x);
  Dims strides = strides_of(type);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (type.dims[i] != dims[i]) strides[i] = 0;
  }
  return step.kernel("aten::expand", {x})
      .attr("size", dims)
      .makes_view(name, strided(type, dims, std::move(strides)), x);
}

}  // namespace ebb::examples
