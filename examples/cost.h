// What an operation costs, by a simple roofline. These are estimates, so that the examples have
// plausible times without a device at hand; nothing here was measured.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/graph/type.h"

namespace ebb::examples {

using Dims = std::vector<std::int64_t>;

// a * b, or the largest number when that does not fit. Sizes are multiplied with it before anybody
// can know whether they are absurd; a tensor of such a size is refused where it is made.
std::int64_t times(std::int64_t a, std::int64_t b);

// 2 * product: the multiplications and additions of a matrix product or convolution.
double multiply_adds(std::initializer_list<std::int64_t> sizes);
double multiply_adds(const Dims& result, std::initializer_list<std::int64_t> summed_over);

// What a kernel moves to read or write the tensor once.
double bytes_moved(const TensorType& type);

// Nanoseconds on an H200, in whole hundreds so that texts stay readable:
//   max(flops / 55 TFLOP/s (TF32, sustained), bytes / 4.0 TB/s, 2 us (the shortest kernel)).
double estimated_nanoseconds(double flops, double bytes);

}  // namespace ebb::examples
