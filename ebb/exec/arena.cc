#include "ebb/exec/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace ebb::exec {

Result<Arena> Arena::make(Bytes size) {
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorKind::kInfeasible,
                fmt::format("{} of host memory cannot be had: {}", to_human(size), why));
  };
  if (size.count < 0) return refuse("that is less than nothing");
  // A system that promises more memory than there is would end the process later instead.
  const Bytes machine{sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)};
  if (size > machine) return refuse(fmt::format("the machine has {}", to_human(machine)));
  const auto length = static_cast<std::size_t>(std::max<std::int64_t>(size.count, 1));
  void* data = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return refuse(std::strerror(errno));
  return Arena(static_cast<std::byte*>(data), size,
               [length](std::byte* block) { munmap(block, length); });
}

}  // namespace ebb::exec
