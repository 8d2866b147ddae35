// What `ebb plan` tells of a plan, of a sweep over budgets, and of a budget that nothing fits into.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/plan/plan.h"
#include "ebb/plan/sweep.h"

namespace ebb {

// What the decisions of a plan move, counted once a storage.
struct PlanCounts {
  std::size_t swapped = 0;
  Bytes swapped_bytes;
  std::size_t recomputed = 0;
  Bytes recomputed_bytes;
  std::size_t clones = 0;
  std::size_t split = 0;  // calls that have become two
};
PlanCounts count_moves(const Plan& plan);

// Some lines for people. `planned` has a plan.
std::string to_text(const Planned& planned);
// Keys as in docs/command-line.md; also where there is no plan.
std::string to_json(const Planned& planned);

// A line for each budget.
std::string to_text(const Sweep& sweep);
std::string to_json(const Sweep& sweep);

// Why nothing fits: in one line, and what is in the way and what would help, in several. `options`
// are those that were planned with. Per cent are of `whole`, where the budget was given as a part
// of that; otherwise of what planning takes for the step as it is.
std::string say_infeasible(const Planned& planned, const PlanOptions& options,
                           std::optional<Bytes> whole = std::nullopt);
std::string explain_infeasible(const Planned& planned, const PlanOptions& options);

}  // namespace ebb
