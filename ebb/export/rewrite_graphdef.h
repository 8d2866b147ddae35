// The paper's driver on a GraphDef: import, rewrite, prove, export. What the Grappler plug-in and
// ebb.tensorflow.LMS call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/export/graphdef.h"
#include "ebb/import/graphdef.h"
#include "ebb/rewrite/lms.h"

namespace ebb {

struct GraphDefRewritten {
  std::string graphdef;               // empty when nothing was changed
  bool was_rewritten_before = false;  // the graph has nodes of ours: it is left alone
  std::string summary;                // for people, some lines
  std::string report;                 // one JSON object, as `ebb rewrite --json` prints
  std::vector<std::string> absent;    // what is said of names that were dropped, and of sizes
};

// Names in the options that the graph does not have.
enum class AbsentNames : std::uint8_t { kError, kDrop };

// Whether there are nodes that rewriting adds.
bool was_rewritten(const Graph& graph);

// Nothing to swap is no error: the answer is that nothing was changed.
[[nodiscard]] Result<GraphDefRewritten> rewrite_graphdef(std::string_view graphdef,
                                                         const LmsOptions& lms,
                                                         const GraphDefOptions& reading,
                                                         const GraphDefExport& writing,
                                                         AbsentNames absent = AbsentNames::kError);

}  // namespace ebb
