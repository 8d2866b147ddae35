// The subcommands of `ebb`. Each adds itself to the command line and does its work when chosen;
// results go to standard output, everything else to standard error.
#pragma once

#include <functional>
#include <span>

#include <CLI/CLI.hpp>

#include "ebb/base/result.h"

namespace ebb::tool {

// What a subcommand does once its options are read: the exit status, or an error for main to print.
using Action = std::function<Result<int>()>;

struct Command {
  CLI::App* app;
  Action run;
};

Command add_show(CLI::App& app);
Command add_verify(CLI::App& app);
Command add_convert(CLI::App& app);
Command add_rewrite(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_apply(CLI::App& app);
Command add_tune(CLI::App& app);
Command add_simulate(CLI::App& app);

// `run` is another program, which this one becomes. Puts its name among the commands.
void list_run(CLI::App& app);
// With the arguments that follow `run`. Comes back only when there is no such program.
Error become_run(std::span<char*> arguments);

}  // namespace ebb::tool
