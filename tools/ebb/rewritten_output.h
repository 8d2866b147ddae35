// What `rewrite` and `apply` share: where the rewritten graph goes, and dumps on the way.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb::tool {

struct RewrittenOutput {
  std::string path;
  std::string dump_after;  // "each", or empty

  void add_options(CLI::App& command);
  // The graph and a JSON object cannot both go to standard output.
  [[nodiscard]] Status check(bool json) const;
  [[nodiscard]] RewriterOptions rewriting() const;
  [[nodiscard]] Status write(const Graph& graph) const;
};

}  // namespace ebb::tool
