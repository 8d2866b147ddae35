#include "ebb/exec/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

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

void touch_together(std::span<std::byte> memory) {
  constexpr std::size_t kPage = 4096;
  const std::size_t count = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 16);
  const std::size_t share = (memory.size() / count + kPage) / kPage * kPage;
  std::vector<std::jthread> threads;
  for (std::size_t begin = 0; begin < memory.size(); begin += share) {
    const auto touch = [=] {
      const std::size_t end = std::min(memory.size(), begin + share);
      for (std::size_t i = begin; i < end; i += kPage) memory[i] = std::byte{0};
    };
    try {
      threads.emplace_back(touch);
    } catch (const std::system_error&) {  // no more threads to be had
      touch();
    }
  }
}

}  // namespace

Bytes available_host_memory(const HostMemoryFiles& files) {
  const std::int64_t system = of_system(files.meminfo);
  const std::int64_t least = std::min(system, of_container(files.cgroup).value_or(system));
  return Bytes{std::max<std::int64_t>(least, 0)};
}

void touch_pages(std::span<std::byte> memory, const TellPieces& tell, Bytes piece) {
  const auto step = static_cast<std::size_t>(piece.count);
  const std::size_t total = (memory.size() + step - 1) / step;
  for (std::size_t done = 0; done < total; ++done) {
    if (tell) tell(done, total);
    const std::size_t begin = done * step;
    touch_together(memory.subspan(begin, std::min(step, memory.size() - begin)));
  }
}

}  // namespace ebb::exec
