// The tuning of the paper's parameters (its section 5.3) by simulation instead of by hand.
//
//   const auto tuning = tune(graph, find_device("h200").value(), {.budget = budget});
//   std::cout << to_text(*tuning);
//
// A trial rewrites the graph by the paper's driver, looks up what its lines then hold at most, and
// simulates the step. What is tried:
//   1. all tensors (n_tensors = -1) as late as possible (lb = 1), which saves most: by either
//      strategy, with and without branches;
//   2. from each of these that fits, apart from branches that do not help, lb = 2, 3, 4, 6, ... 32
//      while it fits: tensors come back earlier, the step waits less, and more are there at once;
//   3. from each of all these, the fastest first, fewer tensors: the fewest that still fit, by
//      halving, to a 16th.
// Recommended is the fastest that fits; of equals, the one that copies least. The peak falls with
// n_tensors and rises with lb as a rule, not by law, so another trial might have been better yet.
//
// Cost: at most `most_trials` rewrites, each near linear. Equal input, equal trials. Not tried:
// computing again (what the planner is for), codecs, fused swap-ins, unless the fixed options have
// them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/device.h"
#include "ebb/plan/profile.h"
#include "ebb/rewrite/lms.h"

namespace ebb {

// NOLINTBEGIN(readability-redundant-member-init): without them gcc warns where {.budget = b}
// stands.
struct TuneOptions {
  Bytes budget = {};
  LmsOptions fixed = {};         // apart from n_tensors, lb, ctrld_strategy and swap_branches
  std::size_t most_trials = 40;  // at least one is made
  std::function<void(std::size_t number)> before_trial = {};  // counted from 1
};
// NOLINTEND(readability-redundant-member-init)

struct TuneTrial {
  LmsOptions parameters;
  std::size_t tensors_swapped = 0;
  Bytes bytes_swapped;
  Bytes peak;             // what the lines hold at most; the simulated step never exceeds it
  std::string peak_node;  // where; empty in an empty graph
  Bytes host_peak;
  Duration step{};
  bool fits = false;
};

struct Tuning {
  Bytes budget;
  TuneTrial as_it_is;               // nothing swapped, or computed again
  std::vector<TuneTrial> trials;    // in the order in which they were made
  std::size_t least = 0;            // the trial with the least peak
  std::optional<std::size_t> best;  // the one recommended; nothing: none fits
  Floor floor;                      // not valid where a profile has the workspaces
};

// Of a graph that the verifier accepts. A step that fits as it is has one trial, which swaps
// nothing. Errors: the fixed options are wrong (kUsage); a size is not known, or the profile has
// nothing of the graph (kBadInput).
[[nodiscard]] Result<Tuning> tune(const Graph& graph, const Device& device,
                                  const TuneOptions& options, const Profile* profile = nullptr);

// For people: a table, a line a trial, and the recommendation.
std::string to_text(const Tuning& tuning);
// For programs: one JSON object; docs/command-line.md lists its fields.
std::string to_json(const Tuning& tuning);
// Where nothing fits (kInfeasible): the least that was found, how, where that peak stands, and what
// would help.
Error explain_misfit(const Graph& graph, const Tuning& tuning);

}  // namespace ebb
