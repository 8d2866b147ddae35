#include "ebb/base/check.h"

namespace ebb {

void throw_internal_error(const char* file, int line, const char* condition,
                          const std::string& message, std::string dump) {
  throw InternalError(
      fmt::format("internal error at {}:{}: {} (expected: {})", file, line, message, condition),
      std::move(dump));
}

}  // namespace ebb
