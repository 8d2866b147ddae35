// Which libtorch this process runs with. Its C++ interface changes from one minor version to the
// next, so a program built with one and run with another must say so instead of crashing.
#pragma once

#include <string>

#include "ebb/base/result.h"

namespace ebb::torch {

struct Version {
  int major = 0;
  int minor = 0;
  int patch = 0;

  bool operator==(const Version&) const = default;
};

Version built_with();    // the libtorch whose headers this was compiled with
Version running_with();  // the libtorch that is loaded

// "2.11.0"
std::string to_string(const Version& version);

// Whether code built with one runs with the other: major and minor versions are equal. kUsage.
[[nodiscard]] Status check_versions(const Version& built, const Version& running);

// Whether this process may call libtorch at all.
[[nodiscard]] Status check_libtorch();

}  // namespace ebb::torch
