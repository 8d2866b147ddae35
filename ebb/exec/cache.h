// Files that Ebb keeps for later processes, in one folder: what was measured, and plans. They save
// time and nothing else, so whatever goes wrong with them is no error: what cannot be read is not
// there, and what cannot be written is not kept. Anybody may delete them at any time.
//
//   const Cache cache(default_cache_folder());
//   if (auto text = cache.read("plan-8f14e45fceea167a.plan")) ...
//   cache.write("plan-8f14e45fceea167a.plan", text);
//
// Processes may use a folder at the same time: a file is there whole, or not at all. The folder
// holds at most so many of our files; the ones that were not used for the longest time are removed.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ebb::exec {

// EBB_CACHE, where that is not "off" ("Off", "OFF"); otherwise ebb in XDG_CACHE_HOME or in
// ~/.cache. Empty: there is none.
std::string default_cache_folder();

class Cache {
 public:
  static constexpr std::size_t kMostFiles = 500;

  Cache() = default;  // keeps nothing
  // An empty folder: keeps nothing. It is made when something is written.
  explicit Cache(std::string folder, std::size_t most_files = kMostFiles)
      : folder_(std::move(folder)), most_files_(most_files) {}

  [[nodiscard]] bool is_on() const { return !folder_.empty(); }
  [[nodiscard]] std::string path_of(std::string_view name) const;

  // Names have a prefix and a suffix of ours (is_ours); others are never touched.
  [[nodiscard]] std::optional<std::string> read(std::string_view name) const;
  void write(std::string_view name, std::string_view text) const;
  // Makes a new text of what is there now, which is nothing or a text; meanwhile nobody else who
  // calls this changes any file of the folder.
  void update(
      std::string_view name,
      const std::function<std::string(const std::optional<std::string>& before)>& make) const;

 private:
  [[nodiscard]] bool make_folder() const;
  void remove_oldest() const;

  std::string folder_;
  std::size_t most_files_ = kMostFiles;
};

}  // namespace ebb::exec
