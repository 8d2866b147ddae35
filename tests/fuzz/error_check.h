// What every error that a reader gives must be.
#pragma once

#include "ebb/base/check.h"
#include "ebb/base/result.h"

namespace ebb {

inline void expect_one_line_of_words(const Error& error) {
  EBB_CHECK(!error.message.empty(), "an error without words");
  EBB_CHECK(error.render("x").find('\n') == std::string::npos, "more than one line");
}

}  // namespace ebb
