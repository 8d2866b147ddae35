// Whole files in, whole files out. "-" is standard input or output.
#pragma once

#include <string>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb {

[[nodiscard]] Result<std::string> read_file(const std::string& path);

// Writes under a temporary name beside `path` and renames it, so that readers see the old file or
// the new one and never half of either; on failure `path` is as it was and nothing is left behind.
// A link keeps pointing where it did; what is no regular file (a pipe, /dev/null) is written to
// directly.
[[nodiscard]] Status write_file(const std::string& path, std::string_view content);

// For messages: a standard error that is closed or full is nobody's to hear of.
void write_to_stderr(std::string_view text);

}  // namespace ebb
