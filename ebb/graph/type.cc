#include "ebb/graph/type.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace ebb {
namespace {

// Bytes from the first element to the last, unknown dimensions taken as one; nullopt on overflow.
std::optional<std::int64_t> known_extent(const TensorType& type) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  if (std::find(type.dims.begin(), type.dims.end(), 0) != type.dims.end()) return 0;
  const std::int64_t size = element_size(type.dtype);
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    const std::int64_t dim = type.dims[i] == TensorType::kUnknownDim ? 1 : type.dims[i];
    if (type.strides.empty()) {
      if (__builtin_mul_overflow(elements, dim, &elements)) return std::nullopt;
    } else {
      std::int64_t span = 0;
      if (__builtin_mul_overflow(dim - 1, type.strides[i], &span)) return std::nullopt;
      if (__builtin_add_overflow(elements, span, &elements)) return std::nullopt;
    }
  }
  if (size != 0 && elements > kMax / size) return std::nullopt;
  return elements * size;
}

bool fully_known(const TensorType& type) {
  return type.ranked && element_size(type.dtype) > 0 &&
         std::find(type.dims.begin(), type.dims.end(), TensorType::kUnknownDim) == type.dims.end();
}

}  // namespace

TensorType on_host(TensorType type) {
  type.residence = Residence::kHost;
  return type;
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size());
  std::uint64_t stride = 1;  // unsigned: [2^40,0,2^40] is a legal shape, and must not overflow
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(std::max<std::int64_t>(dims[i], 1));
  }
  return strides;
}

std::optional<Bytes> extent(const TensorType& type) {
  if (!fully_known(type)) return std::nullopt;
  const auto bytes = known_extent(type);
  return bytes ? std::optional(Bytes{*bytes}) : std::nullopt;
}

bool may_have_gaps(const TensorType& type) {
  if (type.strides.empty()) return false;
  std::vector<std::size_t> axes(type.dims.size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  std::sort(axes.begin(), axes.end(),
            [&](std::size_t a, std::size_t b) { return type.strides[a] < type.strides[b]; });
  std::int64_t reach = 1;  // elements without a gap
  for (const std::size_t axis : axes) {
    const std::int64_t size = type.dims[axis];
    if (size == TensorType::kUnknownDim) return true;
    if (size == 0) return false;
    if (size > 1 && type.strides[axis] > reach) return true;
    reach += (size - 1) * type.strides[axis];
  }
  return false;
}

bool is_too_large(const TensorType& type) { return !known_extent(type).has_value(); }

std::optional<std::string> defect(const TensorType& type) {
  const auto negative = [](std::int64_t n) { return n < 0; };
  if (!type.ranked && !(type.dims.empty() && type.strides.empty())) {
    return "has dimensions or strides but an unknown rank";
  }
  for (const std::int64_t dim : type.dims) {
    if (dim < 0 && dim != TensorType::kUnknownDim) {
      return fmt::format("has the negative dimension {}", dim);
    }
  }
  if (!type.strides.empty()) {
    if (type.strides.size() != type.dims.size()) {
      return fmt::format("has {} strides for {} dimensions", type.strides.size(), type.dims.size());
    }
    if (std::any_of(type.dims.begin(), type.dims.end(), negative)) {
      return "has strides but unknown dimensions";
    }
    if (std::any_of(type.strides.begin(), type.strides.end(), negative)) {
      return "has a negative stride";
    }
  }
  if (is_too_large(type)) return "has more than 2^63-1 bytes";
  return std::nullopt;
}

void append_type(std::string& out, const TensorType& type) {
  const auto append_number = [&](std::int64_t number) {
    const fmt::format_int digits(number);
    out.append(digits.data(), digits.size());
  };
  out += name(type.dtype);
  out += '[';
  if (!type.ranked) out += '*';
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    if (i > 0) out += ',';
    if (type.dims[i] == TensorType::kUnknownDim) {
      out += '?';
    } else {
      append_number(type.dims[i]);
    }
  }
  out += ']';
  if (!type.strides.empty()) {
    out += " strides [";
    for (std::size_t i = 0; i < type.strides.size(); ++i) {
      if (i > 0) out += ',';
      append_number(type.strides[i]);
    }
    out += ']';
  }
  if (type.residence == Residence::kHost) out += " @host";
}

std::string to_text(const TensorType& type) {
  std::string out;
  append_type(out, type);
  return out;
}

}  // namespace ebb
