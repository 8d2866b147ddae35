// What is wrong with a GraphDef, by its code in docs/errors.md.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "ebb/base/result.h"

namespace ebb {

inline tl::unexpected<Error> refuse_graphdef(std::string_view code, std::string message) {
  return fail(Error{.kind = ErrorKind::kBadInput,
                    .code = std::string(code),
                    .message = std::move(message),
                    .place = {}});
}

}  // namespace ebb
