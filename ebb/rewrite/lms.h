// The paper's driver: which tensors to swap, and after which operations they come back. It chooses
// and changes nothing; the swap rule applies what it chose.
//
//   Result<LmsPlan> plan = choose_swaps(graph, {.optimizer_scopes = {"adam_optimizer"}, .lb = 3});
//
// Walks the graph breadth-first from its inputs and looks at each edge from an operation to those
// that read what it made, through views. An edge from the forward to the backward phase is a
// candidate; options add others. What is on the host, variables and constants stay where they are.
// A candidate is chosen if a trigger is found for its swap-in (lms_triggers.h); otherwise it is
// left alone, and the plan says why. Equal graphs and options give equal plans.
//
// Cost: O(nodes + edges) in the usual case, where triggers are found near by.
// Not here: what it costs or saves. The paper's driver knows neither sizes nor times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/rewrite/decision.h"

namespace ebb {

// The paper's parameters (Table 2) under their names, with its defaults, and some of ours.
//
// A scope is one or more whole components of a name's path, in a row: 'adam' has 'step/adam/mul' in
// it, and not 'adam2/mul'. A type is an operator: 'aten::add.Tensor', or without overload or
// namespace, as 'aten::add' and 'Relu'.
//
// NOLINTBEGIN(readability-redundant-member-init): without them gcc warns where {.lb = 3} stands.
struct LmsOptions {
  // Where the backward phase is. Empty: components 'gradients' and 'gradient_tape', or with a
  // number, as 'gradients_1'.
  std::vector<std::string> optimizer_scopes = {};
  // Where the walk begins: at both together, or at the graph's inputs when both are empty.
  std::string starting_scope = {};
  std::vector<std::string> starting_op_names = {};
  // What these operations make is not swapped.
  std::vector<std::string> excl_scopes = {};
  std::vector<std::string> excl_types = {};
  // When not empty, nothing else is swapped than what operations in such a scope (of such a type)
  // make; when both are given, an operation must be in both. Exclusion is stronger.
  std::vector<std::string> incl_scopes = {};
  std::vector<std::string> incl_types = {};
  std::int64_t n_tensors = -1;  // how many to swap, the first in the walk's order; -1: all
  std::int64_t lb = 1;          // how far away a trigger is looked for: from lb to ub
  std::int64_t ub = 10000;
  std::string ctrld_strategy = "chain_rule";  // or "direct_order"
  bool fuse_swapins = false;          // one swap-in for readers that are close to each other
  bool swap_branches = false;         // also edges within the forward phase, if they span
  std::int64_t branch_threshold = 0;  // more than so many levels of γ

  std::int64_t fuse_distance = 10000;  // how many levels of γ from the first reader are close
  bool whole_graph = false;            // also all other edges, if they span
  std::int64_t alpha = 2;              // at least so many levels of γ
  Bytes min_bytes = {};                // smaller tensors stay; unknown sizes count as large enough
  std::string codec = {};  // for tensors that it takes and readers it serves; empty: as they are
  bool codec_on_host = false;  // saves the host's memory alone, not the link

  // For executors that run ahead, as TensorFlow's: of the forward operations whose results are
  // swapped, the (k+sync)-th waits until those of the k-th are on the host; 0: nobody waits
  // (lms_sync.h). Asking for the forward phase alone then copies tensors to the host as well.
  std::int64_t sync = 0;
  // What operations of these types make for the backward phase is computed again instead of
  // swapped, in chains where they read each other; swapped where that is not possible
  // (lms_recompute.h). excl_types and incl_types are about swapping alone.
  std::vector<std::string> recompute_types = {};
};
// NOLINTEND(readability-redundant-member-init)

// Why a candidate was left alone.
enum class LmsRefusal : std::uint8_t {
  kTooClose,        // there is no level between swap-out and reader
  kNoTrigger,       // there are, but the strategy finds no operation there
  kUpdated,         // somebody overwrites the bytes
  kFixedView,       // it has a view that cannot be made again on a copy
  kOtherDevice,     // producer and reader are on different devices
  kOtherScope,      // producer and reader are not in the same loop body or branch
  kAlreadySwapped,  // the graph has a swap-out of it
  kSmall,           // empty, or smaller than min_bytes
  kOnHost,          // that is where it is made
  kVariable,        // it is what a variable holds, which stays
  kOpaque,          // a handle, or a text: nobody knows its bytes
  kExcluded,        // by scope or type
  kByRule,          // the driver chose it and the swap rule said no
  kNotRecomputed,   // it was to be computed again, and is not; it may have been swapped instead
};
// "a variable holds it".
std::string_view describe(LmsRefusal refusal);

struct LmsRefused {
  TensorId tensor;
  NodeId consumer;
  LmsRefusal reason = LmsRefusal::kNoTrigger;
  std::string rule_says = {};  // for the last two // NOLINT(readability-redundant-member-init)

  friend bool operator==(const LmsRefused&, const LmsRefused&) = default;
};

// Why this one was, in words: as describe() says, or as the rule said.
std::string_view reason_of(const LmsRefused& refused);

// What was chosen, and what not. Ids are those of the graph with the clones.
struct LmsPlan {
  std::vector<RecomputeDecision> recomputes;  // last first, before all swaps
  std::vector<SwapDecision> swaps;            // in the order of the walk; one swap-out each
  std::vector<DelayDecision> delays;          // for sync, in line order, after all swaps
  std::vector<LmsRefused> refused;
  std::size_t swap_ins = 0;
  Bytes bytes;                     // of the tensors swapped, as far as sizes are known
  std::size_t unknown_sizes = 0;   // how many of them are not
  std::size_t not_encoded = 0;     // how many of them go without the codec
  bool is_lossy = false;           // some are encoded by a codec that loses bits
  std::size_t recomputations = 0;  // clones of operations, without views that are made again
  Bytes bytes_recomputed;          // of the tensors computed again, as far as known
  std::size_t unknown_recomputed = 0;
  std::size_t backward_operations = 0;  // without clones
  std::size_t delays_refused = 0;       // by the rule
};

// Asked about each swap that is chosen, in order: what it refuses is left alone.
using TrySwap = std::function<Status(const SwapDecision&)>;

// Of a graph that the verifier accepts. Errors (kUsage) are about the options: names that the graph
// does not have, numbers out of range. Recomputing and sync, which need a graph that changes
// meanwhile, are for apply_lms (lms_rewrite.h).
[[nodiscard]] Result<LmsPlan> choose_swaps(const Graph& graph, const LmsOptions& options,
                                           const TrySwap& try_swap = nullptr);

}  // namespace ebb
