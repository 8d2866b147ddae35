// What options may be.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb::examples {

// Far beyond any real size; below it, the sum of two sizes does not overflow.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40U;
// Some hundred million nodes: more than a machine's memory is likely to hold.
inline constexpr std::int64_t kMostLayers = 1'000'000;

struct Setting {
  std::string_view name;
  std::int64_t value = 0;
  std::int64_t most = kMostElements;
};

// Fails (kUsage): "batch is 0, and must be at least 1", and likewise for what is too large.
Status check_range(std::initializer_list<Setting> settings);

}  // namespace ebb::examples
