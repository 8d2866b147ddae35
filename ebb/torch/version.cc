#include "ebb/torch/version.h"

#include <fmt/format.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

namespace ebb::torch {

Version built_with() { return {TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH}; }

Version running_with() {
  // One byte each for major, minor and patch, from the top (torch/headeronly/version.h).
  const std::uint64_t packed = aoti_torch_abi_version();
  const auto byte = [packed](int index) {
    return static_cast<int>((packed >> (8 * index)) & 0xFF);
  };
  return {byte(7), byte(6), byte(5)};
}

std::string to_string(const Version& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

Status check_versions(const Version& built, const Version& running) {
  if (built.major == running.major && built.minor == running.minor) return {};
  return fail(
      ErrorKind::kUsage,
      fmt::format("Ebb was built with torch {} and runs with torch {}; install torch {}.{}, "
                  "or build Ebb again with this one",
                  to_string(built), to_string(running), built.major, built.minor));
}

Status check_libtorch() { return check_versions(built_with(), running_with()); }

}  // namespace ebb::torch
