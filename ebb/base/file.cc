#include "ebb/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace ebb {
namespace {

Error system_error(std::string_view doing, const std::string& path) {
  return Error{.kind = ErrorKind::kBadInput,
               .code = {},
               .message = fmt::format("cannot {} {}: {}", doing, path, std::strerror(errno)),
               .place = {}};
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

Result<std::string> read_all(int fd, const std::string& path) {
  std::string content;
  struct stat status{};
  std::size_t room = 1 << 16;
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    room = static_cast<std::size_t>(status.st_size) + 1;  // one more, to see the end at once
  }
  std::size_t used = 0;
  while (true) {
    if (used == content.size()) content.resize(used == 0 ? room : 2 * used);
    const ssize_t got = ::read(fd, content.data() + used, content.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(system_error("read", path));
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  content.resize(used);
  return content;
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t put = ::write(fd, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

bool write_all(int fd, std::span<const std::string_view> pieces) {
  return std::all_of(pieces.begin(), pieces.end(),
                     [fd](std::string_view piece) { return write_all(fd, piece); });
}

// The permissions a new file would get, or those of the file that is replaced.
mode_t mode_for(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) return status.st_mode & 07777U;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666U & ~mask;
}

// Where a path leads, also to where nothing is yet.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int kDeepest = 40;  // as the kernel has it
  std::error_code ignored;
  for (int i = 0; i < kDeepest && std::filesystem::is_symlink(path, ignored); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path, ignored);
  }
  return path;
}

// Not so: standard output, a pipe, /dev/null.
bool is_replaced(const std::string& path) {
  if (path == "-") return false;
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

bool is_named_pipe(const std::string& path) {
  std::error_code ignored;
  return path != "-" && std::filesystem::is_fifo(path, ignored);
}

// What is written where it is: standard output, a pipe, a device. A folder cannot be opened so.
class DirectFile {
 public:
  static Result<DirectFile> open(const std::string& path) {
    const bool is_output = path == "-";
    DirectFile opened(
        is_output ? "standard output" : path,
        is_output ? ::dup(STDOUT_FILENO) : ::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!opened.file_.valid()) return fail(system_error("write", opened.name_));
    return opened;
  }

  [[nodiscard]] Status write(std::span<const std::string_view> pieces) const {
    if (!write_all(file_.get(), pieces)) return fail(system_error("write", name_));
    return {};
  }

 private:
  DirectFile(std::string name, int fd) : name_(std::move(name)), file_(fd) {}

  std::string name_;
  FileDescriptor file_;
};

// A file that has its content and not yet its name. It is gone with this object, unless put there.
class NewFile {
 public:
  static Result<NewFile> write(const std::string& path, std::span<const std::string_view> pieces) {
    NewFile made(path);
    FileDescriptor file(::mkostemp(made.temporary_.data(), O_CLOEXEC));
    if (!file.valid()) {
      made.temporary_.clear();
      return fail(system_error("write", path));
    }
    const bool done = write_all(file.get(), pieces) &&
                      ::fchmod(file.get(), mode_for(made.target_)) == 0 && file.close();
    if (!done) return fail(system_error("write", path));
    return made;
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        target_(std::move(other.target_)),
        temporary_(std::exchange(other.temporary_, {})) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Status put_in_place() {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
      return fail(system_error("write", path_));
    }
    temporary_.clear();
    return {};
  }

 private:
  explicit NewFile(std::string path)
      : path_(std::move(path)),
        target_(behind_links(path_).string()),
        // Not longer than the name it will have, which may be as long as names can be.
        temporary_((std::filesystem::path(target_).parent_path() / ".ebb.XXXXXX").string()) {}

  std::string path_;
  std::string target_;
  std::string temporary_;  // empty once it is in place
};

}  // namespace

Result<std::string> read_file(const std::string& path) {
  if (path == "-") return read_all(STDIN_FILENO, "standard input");
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return fail(system_error("read", path));
  return read_all(file.get(), path);
}

void MappedFile::Unmap::operator()(std::byte* data) const { ::munmap(data, size); }

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: to open a named pipe would wait for its writer, and it is refused anyway.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return fail(system_error("read", path));
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::kBadInput, fmt::format("cannot read {}: not a regular file", path));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return MappedFile(nullptr, 0);  // which the system would not map
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return fail(system_error("read", path));
  return MappedFile(static_cast<std::byte*>(data), size);
}

Status write_file(const std::string& path, std::string_view content) {
  return write_file(path, std::span(&content, 1));
}

Status write_file(const std::string& path, std::span<const std::string_view> pieces) {
  if (!is_replaced(path)) {
    const auto file = DirectFile::open(path);
    if (!file) return fail(file.error());
    return file->write(pieces);
  }
  auto file = NewFile::write(path, pieces);
  if (!file) return fail(std::move(file.error()));
  return file->put_in_place();
}

Status write_files(std::span<const FileContent> files) {
  // All that can fail beforehand does, before anything has its name. But to open a named pipe waits
  // for its reader, who may want to read another of these files first.
  std::vector<NewFile> written;
  std::vector<std::pair<DirectFile, std::string_view>> opened;
  std::vector<FileContent> pipes;
  for (const FileContent& each : files) {
    const std::string_view content = each.content;
    if (is_replaced(each.path)) {
      auto file = NewFile::write(each.path, std::span(&content, 1));
      if (!file) return fail(std::move(file.error()));
      written.push_back(*std::move(file));
    } else if (is_named_pipe(each.path)) {
      pipes.push_back(each);
    } else {
      auto file = DirectFile::open(each.path);
      if (!file) return fail(std::move(file.error()));
      opened.emplace_back(*std::move(file), content);
    }
  }
  for (NewFile& file : written) {
    if (Status ok = file.put_in_place(); !ok) return ok;
  }
  for (const auto& [file, content] : opened) {
    if (Status ok = file.write(std::span(&content, 1)); !ok) return ok;
  }
  for (const FileContent& each : pipes) {
    if (Status ok = write_file(each.path, each.content); !ok) return ok;
  }
  return {};
}

void write_to_stderr(std::string_view text) { write_all(STDERR_FILENO, text); }

}  // namespace ebb
