// What is wrong with a command line, in the user's words: the parser says neither which command was
// meant nor which option.
#pragma once

#include <CLI/CLI.hpp>

namespace ebb::tool {

// Reports what `app` could not parse. A command or an option that it does not have is named, and
// the nearest one that it has.
int report_usage(const CLI::App& app, const CLI::ParseError& wrong);

}  // namespace ebb::tool
