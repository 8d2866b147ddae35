// ebb: the command line. Exit statuses are part of the interface (docs/command-line.md).
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "commands.h"
#include "outcome.h"
#include "usage.h"

namespace ebb::tool {
namespace {

int run(int argc, char** argv) {
  const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
  if (argc > 0) {
    if (const int status = report_empty_argument(arguments.subspan(1), "ebb"); status != 0) {
      return status;
    }
  }
  if (argc > 1 && std::string_view(argv[1]) == "run") {
    return report(become_run({argv + 2, static_cast<std::size_t>(argc) - 2}));
  }
  CLI::App app(
      "Ebb trains neural networks that do not fit in accelerator memory, by rewriting the training "
      "graph.",
      "ebb");
  app.set_version_flag("--version", EBB_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 done, 1 a bug in ebb, 2 wrong usage, 3 bad input, 4 infeasible,\n"
      "5 a check said no. 'ebb COMMAND --help' has examples.");
  const Command commands[] = {add_show(app), add_verify(app), add_convert(app), add_rewrite(app),
                              add_plan(app), add_apply(app),  add_tune(app),    add_simulate(app)};
  list_run(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help or --version
    return app.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    return report_usage(app, wrong);
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const auto status = command.run();
    return status ? *status : report(status.error());
  }
  return report_usage("'run' is the first word after ebb", "ebb run");
}

}  // namespace
}  // namespace ebb::tool

int main(int argc, char** argv) {
  return ebb::tool::guarded([&] { return ebb::tool::run(argc, argv); });
}
