// `ebb run` is a program of its own, ebb-run (tools/ebb-run): it needs PyTorch's libraries, and
// loading these takes longer than anything else that ebb does.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commands.h"

namespace ebb::tool {
namespace {

constexpr const char* kProgram = "ebb-run";

}  // namespace

void list_run(CLI::App& app) {
  app.add_subcommand("run", "Run a captured PyTorch training step, without Python");
}

Error become_run(std::span<char*> arguments) {
  std::string name = kProgram;
  std::vector<char*> argv{name.data()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  argv.push_back(nullptr);

  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::string beside = (folder / kProgram).string();
  ::execv(beside.c_str(), argv.data());  // does not return, unless it fails
  if (errno == ENOENT) ::execvp(kProgram, argv.data());
  const int cause = errno;
  Error error{.kind = ErrorKind::kUsage, .code = {}, .message = {}, .place = {}};
  if (cause == ENOENT) {
    error.message = fmt::format(
        "there is no {} in {} nor on the PATH: this ebb was built without PyTorch; 'ebb run' needs "
        "one built with it (cmake -DEBB_BUILD_TORCH=ON)",
        kProgram, folder.string());
  } else {
    error.message = fmt::format("cannot start {}: {}", beside, std::strerror(cause));
  }
  return error;
}

}  // namespace ebb::tool
