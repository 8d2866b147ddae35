#include "examples/limits.h"

#include <fmt/format.h>

namespace ebb::examples {

Status check_range(std::initializer_list<Setting> settings) {
  for (const auto& [name, value, most] : settings) {
    if (value < 1) {
      return fail(ErrorKind::kUsage, fmt::format("{} is {}, and must be at least 1", name, value));
    }
    if (value > most) {
      return fail(ErrorKind::kUsage,
                  fmt::format("{} is {}, and must be at most {}", name, value, most));
    }
  }
  return {};
}

}  // namespace ebb::examples
