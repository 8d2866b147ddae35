// How much host memory there is for what is swapped out.
#pragma once

#include <string>

#include "ebb/base/units.h"

namespace ebb::exec {

// Where the system and the container say it.
struct HostMemoryFiles {
  std::string meminfo = "/proc/meminfo";
  std::string cgroup = "/sys/fs/cgroup";
};

// What can be had without pushing anybody out, in the system and in the container. What the system
// keeps of files, and gives back when somebody needs it, counts as there.
[[nodiscard]] Bytes available_host_memory(const HostMemoryFiles& files = {});

}  // namespace ebb::exec
