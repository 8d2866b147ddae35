#include "ebb/exec/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "ebb/base/check.h"
#include "ebb/base/file.h"

namespace ebb::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLock = "lock";

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return value == nullptr ? "" : value;
}

// The folder may be one that the user has other files in.
bool is_ours(std::string_view name) {
  return (name.starts_with("measured-") && name.ends_with(".json")) ||
         (name.starts_with("plan-") && name.ends_with(".plan"));
}

// Held by one process at a time; where that takes too long, or the file system has no locks, we go
// on without: then what the other one found out may be lost, and is found out again.
class Lock {
 public:
  explicit Lock(const fs::path& folder)
      : file_(::open((folder / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    constexpr int kTries = 200;
    for (int i = 0; file_ >= 0 && i < kTries; ++i) {
      if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() {
    if (file_ >= 0) ::close(file_);  // and gives it back
  }

 private:
  int file_;
};

}  // namespace

std::string default_cache_folder() {
  std::string ours = variable("EBB_CACHE");
  if (ours == "off" || ours == "OFF" || ours == "Off") return {};
  if (!ours.empty()) return ours;
  // Where it is not absolute it is to be ignored, says its specification.
  if (const std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/')) {
    return (fs::path(xdg) / "ebb").string();
  }
  const std::string home = variable("HOME");
  return home.empty() ? "" : (fs::path(home) / ".cache" / "ebb").string();
}

std::string Cache::path_of(std::string_view name) const {
  EBB_CHECK(is_ours(name), "'{}' is no name for a file in the cache", name);
  return (fs::path(folder_) / name).string();
}

std::optional<std::string> Cache::read(std::string_view name) const {
  if (!is_on()) return std::nullopt;
  const std::string path = path_of(name);
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  auto text = read_file(path);
  if (!text) return std::nullopt;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // it was used
  return *std::move(text);
}

bool Cache::make_folder() const {
  std::error_code problem;
  fs::create_directories(folder_, problem);
  return !problem && ::access(folder_.c_str(), W_OK | X_OK) == 0;
}

void Cache::write(std::string_view name, std::string_view text) const {
  if (!is_on() || !make_folder()) return;
  if (write_file(path_of(name), text)) remove_oldest();
}

void Cache::update(
    std::string_view name,
    const std::function<std::string(const std::optional<std::string>&)>& make) const {
  if (!is_on() || !make_folder()) return;
  const Lock lock(folder_);
  write(name, make(read(name)));
}

void Cache::remove_oldest() const {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code ignored;
  for (fs::directory_iterator it(folder_, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (!is_ours(it->path().filename().string())) continue;
    std::error_code gone;
    const auto used = it->last_write_time(gone);
    if (!gone) files.emplace_back(used, it->path());
  }
  if (files.size() <= most_files_) return;
  const auto kept = files.end() - static_cast<std::ptrdiff_t>(most_files_);
  std::nth_element(files.begin(), kept, files.end());
  std::for_each(files.begin(), kept, [&](const auto& file) { fs::remove(file.second, ignored); });
}

}  // namespace ebb::exec
