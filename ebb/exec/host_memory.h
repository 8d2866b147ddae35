// Host memory for what is swapped out: how much there is, and pages of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
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

// Told how many pieces of how many are done. What it throws ends the work, and comes through.
using TellPieces = std::function<void(std::size_t done, std::size_t total)>;

// Touches every page of zeroed memory. The system makes a page when it is first touched, and one
// thread is slow at it, so several do it together. `tell`, where there is one, is called before
// each piece.
void touch_pages(std::span<std::byte> memory, const TellPieces& tell,
                 Bytes piece = Bytes{std::int64_t{1} << 30});

}  // namespace ebb::exec
