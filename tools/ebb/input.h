// Reading the graph a command works on.
#pragma once

#include <string>

#include "ebb/base/result.h"
#include "ebb/graph/parse.h"

namespace ebb::tool {

// How messages call a file: its path, or what "-" stands for.
std::string shown_name(const std::string& path);

// The error with the file's name and the place in its message; bad input, whatever it was.
Error in_file(Error error, const std::string& path);

// The graph as it stands in the file. Errors name the file.
[[nodiscard]] Result<ParsedGraph> read_graph_text(const std::string& path);

// The same, verified: what breaks an invariant is bad input to every command but `verify`.
[[nodiscard]] Result<Graph> read_graph(const std::string& path);

}  // namespace ebb::tool
