// What one operation asks its allocator for while it runs, and how its results lie: measured once
// per signature (graph/signature.h), the same in every step, and served from planned offsets ever
// after.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/base/units.h"

namespace ebb {

struct Request {
  static constexpr std::int32_t kTemporary = -1;  // given back before the operation ends
  static constexpr std::int32_t kKept = -2;       // kept by the library; not ours to place

  Bytes size;
  // Which result of the node lives in it (counted from 0), or one of the above.
  std::int32_t result = kTemporary;
  // For temporaries: how many requests had been made when it was given back.
  std::uint32_t freed_after = 0;
};

// A result that lies otherwise in memory than the graph says: readers that go by the order of bytes
// would round otherwise. It is copied to where the graph has it, unless the strides differ only in
// directions of one element.
struct OtherStrides {
  std::int32_t result = 0;            // which of the node's, counted from 0
  std::vector<std::int64_t> strides;  // in elements
};

struct Recipe {
  std::vector<Request> requests;        // in the order of asking
  std::vector<OtherStrides> otherwise;  // in the order of results
};

// The bytes that an operation's temporaries take turns in, alive at its line only.
struct Workspace {
  Bytes size;                  // aligned; zero where nothing is temporary
  std::vector<Bytes> offsets;  // by request, from the begin of the workspace; zero for the others
};

// The recipe must be one that check_recipe (lower/runnable.h) takes.
Workspace lay_out_workspace(const Recipe& recipe, Bytes alignment);

}  // namespace ebb
