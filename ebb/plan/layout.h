// Offsets in one arena: buffers that are alive at the same time do not overlap, and the arena is
// as small as we can make it.
//
//   const Layout layout = lay_out(buffers);
//   std::byte* data = arena + layout.offsets[i].count;
//
// A pure function: the same buffers give the same offsets, in whatever order they are told. Finding
// the smallest arena is NP-hard (it is dynamic storage allocation); what comes out is never below
// the bound, and both are reported. On training steps the two are equal or nearly so. O(n log n) in
// the usual case; `effort` bounds what is spent on the unusual one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"

namespace ebb {

struct LayoutBuffer {
  Bytes size;               // >= 0; empty buffers take no room and lie anywhere
  std::uint32_t first = 0;  // alive from this time to `last`, both included
  std::uint32_t last = 0;
  std::optional<Bytes> at;  // must lie at this offset, a multiple of the alignment
};

struct LayoutOptions {
  Bytes alignment{64};  // of every offset; a power of two
  // What to spend on a smaller arena when the quick heuristics end above the bound and above what
  // is enough, in units of about a tenth of a microsecond. Counted, not timed: every machine gives
  // the same layout.
  std::int64_t effort = 1'000'000;
  // An arena of this size will do: where the quick heuristics end above, it is what is sought.
  Bytes enough{};
};

struct Layout {
  std::vector<Bytes> offsets;  // by buffer
  Bytes size;                  // of the arena: the largest end of a buffer, aligned
  // No layout is smaller: the largest sum of aligned sizes alive at one time, or the end of a
  // buffer with a fixed offset if that is larger.
  Bytes bound;
};

// Buffers with fixed offsets must not overlap each other while both are alive, and all sizes
// together must be less than 2^62 bytes.
Layout lay_out(std::span<const LayoutBuffer> buffers, const LayoutOptions& options = {});

// Whether a layout is right: aligned, inside its size, no two alive at one time overlap, fixed ones
// where they must be, size and bound as said above. Brute force, O(n^2), and written without a look
// at lay_out.
[[nodiscard]] Status check_layout(std::span<const LayoutBuffer> buffers, const Layout& layout,
                                  const LayoutOptions& options = {});

}  // namespace ebb
