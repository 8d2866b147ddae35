#include "ebb/export/rewrite_graphdef.h"

#include <chrono>

#include "ebb/graph/ebb_ops.h"
#include "ebb/rewrite/lms_names.h"
#include "ebb/rewrite/lms_rewrite.h"

namespace ebb {

bool was_rewritten(const Graph& graph) {
  for (const NodeId node : graph.order()) {
    if (is_copy(graph.op(node)) || graph.clone_of(node).valid()) return true;
  }
  return false;
}

Result<GraphDefRewritten> rewrite_graphdef(std::string_view graphdef, const LmsOptions& lms,
                                           const GraphDefOptions& reading,
                                           const GraphDefExport& writing, AbsentNames absent) {
  const auto start = std::chrono::steady_clock::now();
  const auto graph = import_graphdef(graphdef, reading);
  if (!graph) return fail(graph.error());
  GraphDefRewritten out;
  if (was_rewritten(*graph)) {
    out.was_rewritten_before = true;
    out.summary = "The graph was rewritten before, and is left as it is.\n";
    return out;
  }
  LmsOptions options = lms;
  if (absent == AbsentNames::kDrop) out.absent = drop_absent_names(*graph, options);
  const auto done = rewrite_by_lms(*graph, options);
  if (!done) return fail(done.error());
  if (!done->journal.empty()) {
    auto bytes = export_graphdef(done->graph, writing);
    if (!bytes) return fail(bytes.error());
    out.graphdef = std::move(*bytes);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  out.summary = lms_summary(*graph, *done);
  out.report = lms_json(*graph, *done, took.count());
  return out;
}

}  // namespace ebb
