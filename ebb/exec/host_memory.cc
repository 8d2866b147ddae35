#include "ebb/exec/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

namespace ebb::exec {
namespace {

// The number behind a word in a file of lines "word number ...".
std::optional<std::int64_t> number_behind(const std::string& path, std::string_view word) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(word)) continue;
    const char* begin = line.data() + word.size();
    char* end = nullptr;
    const std::int64_t number = std::strtoll(begin, &end, 10);
    if (end != begin) return number;
  }
  return std::nullopt;
}

std::int64_t of_system(const std::string& meminfo) {
  if (const auto kibibytes = number_behind(meminfo, "MemAvailable:")) return *kibibytes * 1024;
  return sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

// None where there is no limit, or nobody says so.
std::optional<std::int64_t> of_container(const std::string& cgroup) {
  const auto limit = number_behind(cgroup + "/memory.max", "");
  const auto used = number_behind(cgroup + "/memory.current", "");
  if (!limit || !used) return std::nullopt;
  const std::int64_t of_files =
      number_behind(cgroup + "/memory.stat", "inactive_file ").value_or(0);
  return *limit - *used + of_files;
}

}  // namespace

Bytes available_host_memory(const HostMemoryFiles& files) {
  const std::int64_t system = of_system(files.meminfo);
  const std::int64_t least = std::min(system, of_container(files.cgroup).value_or(system));
  return Bytes{std::max<std::int64_t>(least, 0)};
}

}  // namespace ebb::exec
