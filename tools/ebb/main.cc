// ebb: the command line. Exit statuses are part of the interface (docs/command-line.md).
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <new>

#include <fmt/format.h>

#include "commands.h"
#include "ebb/base/check.h"
#include "ebb/base/file.h"

namespace ebb::tool {
namespace {

constexpr int kInternal = 1;

int report(const Error& error) {
  write_to_stderr(fmt::format("ebb: {}\n", error.render("")));
  return static_cast<int>(error.kind);
}

int report(const InternalError& error) {
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

int run(int argc, char** argv) {
  CLI::App app(
      "Ebb trains neural networks that do not fit in accelerator memory, by rewriting the training "
      "graph.",
      "ebb");
  app.set_version_flag("--version", EBB_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 done, 1 a bug in ebb, 2 wrong usage, 3 bad input, 4 infeasible,\n"
      "5 a check said no. 'ebb COMMAND --help' has examples.");
  const Command commands[] = {add_show(app), add_verify(app), add_convert(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help or --version
    return app.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    write_to_stderr(fmt::format("ebb: {}\n", wrong.what()));
    write_to_stderr(fmt::format(
        "ebb: 'ebb {}--help' tells more\n",
        app.get_subcommands().empty() ? "" : app.get_subcommands()[0]->get_name() + " "));
    return static_cast<int>(ErrorKind::kUsage);
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const auto status = command.run();
    return status ? *status : report(status.error());
  }
  return kInternal;
}

}  // namespace
}  // namespace ebb::tool

int main(int argc, char** argv) {
  try {
    return ebb::tool::run(argc, argv);
  } catch (const ebb::InternalError& error) {
    return ebb::tool::report(error);
  } catch (const std::bad_alloc&) {
    std::fputs("ebb: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebb: %s\n", error.what());
  }
  return 1;
}
