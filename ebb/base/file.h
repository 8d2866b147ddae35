// Whole files in, whole files out. "-" is standard input or output.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ebb/base/result.h"

namespace ebb {

[[nodiscard]] Result<std::string> read_file(const std::string& path);

// A file's bytes where the system keeps them, for files too large to copy. Read-only; valid as long
// as this object. Nobody may shorten the file meanwhile; replacing it (write_file) is no harm.
class MappedFile {
 public:
  // Regular files only: a pipe has no bytes to point at.
  [[nodiscard]] static Result<MappedFile> open(const std::string& path);
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {data_.get(), data_ == nullptr ? 0 : data_.get_deleter().size};
  }

 private:
  struct Unmap {
    std::size_t size = 0;
    void operator()(std::byte* data) const;
  };
  MappedFile(std::byte* data, std::size_t size) : data_(data, Unmap{size}) {}

  std::unique_ptr<std::byte, Unmap> data_;  // null when the file is empty
};

// Writes under a temporary name beside `path` and renames it, so that readers see the old file or
// the new one and never half of either; on failure `path` is as it was and nothing is left behind.
// A link keeps pointing where it did; what is no regular file (a pipe, /dev/null) is written to
// directly.
[[nodiscard]] Status write_file(const std::string& path, std::string_view content);
// The same for a content in pieces, which need not be put together first.
[[nodiscard]] Status write_file(const std::string& path, std::span<const std::string_view> pieces);

// Several files that belong together: all of them are written beside their names before the first
// gets its own, so that what cannot be written leaves the others as they were, too. What is no
// regular file is written to last.
struct FileContent {
  std::string path;
  std::string content;
};
[[nodiscard]] Status write_files(std::span<const FileContent> files);

// For messages: a standard error that is closed or full is nobody's to hear of.
void write_to_stderr(std::string_view text);

}  // namespace ebb
