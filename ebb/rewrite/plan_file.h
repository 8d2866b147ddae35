// The `.plan` file: which decisions to apply to which graph.
//
//   ebb plan 1
//   graph 8f14e45fceea167a
//   device h100-sxm
//   budget 16GiB
//   recompute %a for gw after s
//   swap %h for gh after s
//   peak 15GiB
//   host 3GiB
//   step 212ms
//   unconstrained 200ms
//   at %x 0B
//   at %h.host 0B
//   workspace gw 1MiB
//   end
//
// First the version of the format, then the fingerprint of the graph the plan was made for; device,
// budget and host_budget say what it was made with and may be left out; then decisions in the order
// in which they are applied; then what they are expected to lead to, which may be left out too: the
// size of the arena and of the slab on the host, how long the step takes and how long it took
// before, and at which byte of arena or slab each storage (by the tensor that it begins with) and
// each workspace lies. At the end `end`, so that a part of a plan is none. `#` begins a comment.
// Names in a decision are those of the graph as the decisions above have left it, so a decision is
// read when its turn comes; to apply a plan, no more than the decisions is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/rewrite/decision.h"
#include "ebb/rewrite/proof.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {

struct PlanFile {
  struct Line {
    std::string text;  // of one decision
    int number = 0;    // in the file, counted from 1
  };

  std::uint64_t fingerprint = 0;
  std::string device;  // empty: not given
  std::optional<Bytes> budget;
  std::optional<Bytes> host_budget;
  std::vector<Line> decisions;
  std::optional<Bytes> peak;
  std::optional<Bytes> host;
  std::optional<Duration> step;
  std::optional<Duration> unconstrained;
  struct Offset {
    std::string name;  // of a tensor or a node, as the text spells it
    Bytes at;
    int number = 0;

    friend bool operator==(const Offset&, const Offset&) = default;
  };
  std::vector<Offset> tensors;
  std::vector<Offset> workspaces;
};

// A number that changes when the text of the graph does, apart from its notes on user code.
std::uint64_t fingerprint(const Graph& graph);

// The plan that made one graph the other: the journal of the rewriter who did.
PlanFile plan_of(const Graph& original, const Graph& rewritten,
                 std::span<const JournalEntry> journal);

std::string to_text(const PlanFile& plan);
[[nodiscard]] Result<PlanFile> parse_plan(std::string_view text);

struct Applied {
  Graph graph;
  std::size_t decisions = 0;
  Proof proof;
};

// The graph after all decisions, verified and proved to be the same computation; or the first
// decision that does not apply, its line in the file, and why. A plan for another graph is refused.
// What cannot be proved is our own bug, an InternalError.
[[nodiscard]] Result<Applied> apply_plan(const Graph& graph, const PlanFile& plan,
                                         const RewriterOptions& options = {});

}  // namespace ebb
