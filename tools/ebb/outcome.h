// How a program of ours ends: lines on standard error, and an exit status (docs/errors.md).
#pragma once

#include <functional>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb::tool {

// Prints the error; the exit status is that of its kind.
int report(const Error& error);

// Wrong usage of `command`, "ebb show": says how to learn more.
int report_usage(std::string_view what, std::string_view command);

// What `run` returns; what it throws is a bug of ours, or there is no memory left: status 1.
int guarded(const std::function<int()>& run);

}  // namespace ebb::tool
