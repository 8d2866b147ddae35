// A graph that Grappler shows us, rewritten so that a step keeps inside a budget.
#pragma once

#include <memory>
#include <string_view>

#include "configuration.h"
#include "ebb/base/result.h"
#include "ebb/export/rewrite_graphdef.h"

namespace ebb::grappler {

struct BudgetRewritten {
  GraphDefRewritten rewritten;
  std::shared_ptr<const Graph> planned;  // as it was before, with all sizes; null: rewritten before
};

// kInfeasible where nothing fits, with the least budget that does and what is in the way.
// Everything in such a graph runs whenever anything does.
[[nodiscard]] Result<BudgetRewritten> rewrite_by_budget(std::string_view graphdef,
                                                        const BudgetParameters& parameters,
                                                        const GraphDefOptions& reading,
                                                        const GraphDefExport& writing);

}  // namespace ebb::grappler
