// Reads the text form; docs/graph-text.md is its grammar, docs/errors.md lists the errors.
//
// The reader takes any bytes and answers with a graph or with the first error, its line and column
// and what to do about it. It does not recurse, checks every number for overflow, and takes time
// linear in the text.
#pragma once

#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"

namespace ebb {

struct ParsedGraph {
  Graph graph;
  std::vector<int> lines;  // by NodeId: the line it stands on, counted from 1
};

// What the text says. Names are unique and known and lines stand in dependence order, except that a
// reader may stand after the update of what it reads: that and the rest is for verify().
[[nodiscard]] Result<ParsedGraph> parse(std::string_view text);

// Parses and verifies: a graph that everything else may rely on.
[[nodiscard]] Result<Graph> parse_valid(std::string_view text);

}  // namespace ebb
