#include "outcome.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <new>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/base/file.h"

namespace ebb::tool {
namespace {

constexpr int kInternal = 1;

int report_bug(const InternalError& error) {
  write_to_stderr(fmt::format("ebb: {}\n", error.what()));
  write_to_stderr(fmt::format("ebb: this is a bug in ebb, not in your input; please report it\n"));
  if (!error.dump().empty()) {
    const auto path = std::filesystem::temp_directory_path() /
                      fmt::format("ebb-dump-{}.ebb", static_cast<long>(::getpid()));
    if (write_file(path.string(), error.dump())) {
      write_to_stderr(fmt::format("ebb: the graph at hand was written to {}\n", path.string()));
    }
  }
  return kInternal;
}

}  // namespace

int report(const Error& error) {
  write_to_stderr(fmt::format("ebb: {}\n", error.render("")));
  return static_cast<int>(error.kind);
}

int report_usage(std::string_view what, std::string_view command) {
  write_to_stderr(fmt::format("ebb: {}\n", what));
  write_to_stderr(fmt::format("ebb: '{} --help' tells more\n", command));
  return static_cast<int>(ErrorKind::kUsage);
}

int guarded(const std::function<int()>& run) {
  try {
    return run();
  } catch (const InternalError& error) {
    return report_bug(error);
  } catch (const std::bad_alloc&) {
    std::fputs("ebb: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebb: %s\n", error.what());
  }
  return kInternal;
}

}  // namespace ebb::tool
