// Nothing here is shared with lay_out but the types: pairs of buffers, in bytes and times.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ebb/plan/layout.h"

namespace ebb {
namespace {

std::int64_t rounded_up(std::int64_t bytes, std::int64_t alignment) {
  const std::int64_t beyond = bytes % alignment;
  return beyond == 0 ? bytes : bytes + (alignment - beyond);
}

bool alive_together(const LayoutBuffer& a, const LayoutBuffer& b) {
  return a.first <= b.last && b.first <= a.last;
}

tl::unexpected<Error> refuse(std::string message) {
  return fail(ErrorKind::kRefused, "the layout is wrong: " + std::move(message));
}

Status check_one(std::size_t i, const LayoutBuffer& buffer, Bytes offset, const Layout& layout,
                 std::int64_t alignment) {
  if (offset.count < 0) return refuse(fmt::format("buffer {} lies at {}", i, offset.count));
  if (offset.count % alignment != 0) {
    return refuse(fmt::format("buffer {} lies at {}, which is not a multiple of {}", i,
                              offset.count, alignment));
  }
  if (buffer.size.count > layout.size.count - offset.count) {
    return refuse(fmt::format("buffer {} of {} bytes lies at {}, outside the arena of {} bytes", i,
                              buffer.size.count, offset.count, layout.size.count));
  }
  if (buffer.at && offset != *buffer.at) {
    return refuse(
        fmt::format("buffer {} lies at {} and must lie at {}", i, offset.count, buffer.at->count));
  }
  return {};
}

Status check_two(std::size_t i, std::size_t j, std::span<const LayoutBuffer> buffers,
                 const Layout& layout) {
  const LayoutBuffer& a = buffers[i];
  const LayoutBuffer& b = buffers[j];
  if (!alive_together(a, b) || a.size.count == 0 || b.size.count == 0) return {};
  const std::int64_t a_begin = layout.offsets[i].count;
  const std::int64_t b_begin = layout.offsets[j].count;
  const std::int64_t a_end = a_begin + a.size.count;
  const std::int64_t b_end = b_begin + b.size.count;
  if (a_end <= b_begin || b_end <= a_begin) return {};
  return refuse(
      fmt::format("buffers {} and {} overlap: bytes [{}, {}) during times {} to {}, and bytes "
                  "[{}, {}) during times {} to {}",
                  i, j, a_begin, a_end, a.first, a.last, b_begin, b_end, b.first, b.last));
}

// The sum of sizes is largest at a time when somebody is born.
std::int64_t find_bound(std::span<const LayoutBuffer> buffers, std::int64_t alignment) {
  std::int64_t bound = 0;
  for (const LayoutBuffer& born : buffers) {
    std::int64_t alive = 0;
    for (const LayoutBuffer& buffer : buffers) {
      if (buffer.first <= born.first && born.first <= buffer.last) {
        alive += rounded_up(buffer.size.count, alignment);
      }
    }
    bound = std::max(bound, alive);
    if (const std::optional<Bytes> at = born.at) {
      bound = std::max(bound, at->count + rounded_up(born.size.count, alignment));
    }
  }
  return bound;
}

}  // namespace

Status check_layout(std::span<const LayoutBuffer> buffers, const Layout& layout,
                    const LayoutOptions& options) {
  const std::int64_t alignment = options.alignment.count;
  if (layout.offsets.size() != buffers.size()) {
    return refuse(
        fmt::format("it has {} offsets for {} buffers", layout.offsets.size(), buffers.size()));
  }
  std::int64_t size = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (Status one = check_one(i, buffers[i], layout.offsets[i], layout, alignment); !one) {
      return one;
    }
    size = std::max(size, rounded_up(layout.offsets[i].count + buffers[i].size.count, alignment));
    for (std::size_t j = 0; j < i; ++j) {
      if (Status two = check_two(j, i, buffers, layout); !two) return two;
    }
  }
  if (layout.size.count != size) {
    return refuse(
        fmt::format("its size is {} bytes, and its buffers end at {}", layout.size.count, size));
  }
  if (const std::int64_t bound = find_bound(buffers, alignment); layout.bound.count != bound) {
    return refuse(fmt::format("its bound is {} bytes instead of {}", layout.bound.count, bound));
  }
  return {};
}

}  // namespace ebb
