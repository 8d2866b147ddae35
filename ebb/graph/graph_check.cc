#include "ebb/graph/graph_check.h"

#include "ebb/graph/print.h"
#include "ebb/graph/verify_checks.h"

namespace ebb {

std::string dump(const Graph& graph) {
  Findings findings("V01", 1);
  check_ids_are_in_range(graph, findings);
  const auto found = findings.take();
  if (found.empty()) return print(graph);
  return fmt::format("# graph '{}' cannot be printed: {}\n", graph.name(), found[0].message);
}

}  // namespace ebb
