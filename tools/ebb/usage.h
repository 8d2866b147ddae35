// What is wrong with a command line, in the user's words: the parser says neither which command was
// meant nor which option.
#pragma once

#include <span>
#include <string_view>

#include <CLI/CLI.hpp>

namespace ebb::tool {

// Reports what `app` could not parse. A command or an option that it does not have is named, and
// the nearest one that it has.
int report_usage(const CLI::App& app, const CLI::ParseError& wrong);

// 0, or the status where an argument is empty: a variable of the shell that was not set, say, which
// would count as one that is not given.
int report_empty_argument(std::span<char* const> arguments, std::string_view command);

}  // namespace ebb::tool
