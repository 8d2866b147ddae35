#include "examples/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ebb::examples {

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max()
                                                : product;
}

double multiply_adds(std::initializer_list<std::int64_t> sizes) {
  double count = 2;
  for (const std::int64_t size : sizes) count *= static_cast<double>(size);
  return count;
}

double multiply_adds(const Dims& result, std::initializer_list<std::int64_t> summed_over) {
  double count = multiply_adds(summed_over);
  for (const std::int64_t dim : result) count *= static_cast<double>(dim);
  return count;
}

double bytes_moved(const TensorType& type) {
  double bytes = element_size(type.dtype);
  for (const std::int64_t dim : type.dims) bytes *= static_cast<double>(dim);
  return bytes;
}

double estimated_nanoseconds(double flops, double bytes) {
  constexpr double kFlopsPerNanosecond = 55e12 / 1e9;
  constexpr double kBytesPerNanosecond = 4.0e12 / 1e9;
  constexpr double kShortestKernel = 2000;
  constexpr double kGrain = 100;
  const double nanoseconds =
      std::max({flops / kFlopsPerNanosecond, bytes / kBytesPerNanosecond, kShortestKernel});
  return std::round(nanoseconds / kGrain) * kGrain;
}

}  // namespace ebb::examples
