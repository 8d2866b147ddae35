// Lets a copy or a clone stand further down: the schedule changes, and nothing else.
//
// Before:  %h.host = ebb::swap_out(%h),  conv
// After:   conv,  %h.host = ebb::swap_out(%h)
// When:    the node is a swap-out, a swap-in or a clone and stands above the other line, and nobody
//          from its line down to that one waits for it, but views, which move along; with a clone
//          clones that read it do, too.
// Why:     it picks one of the orders that the graph allows. Lines say when bytes change hands:
//          below a swap-out those of its source are free, and a swap-in gets its own at its line.
//          The copy itself may begin earlier (docs/planning.md). Clones are pure: nobody sees when
//          they run. Of two chains of clones for one reader it may matter which comes first, for
//          what the second needs is there beside what the first has made.
#pragma once

#include <string_view>

#include "ebb/base/result.h"
#include "ebb/rewrite/decision.h"

namespace ebb {

class Rewriter;

struct Move {
  static constexpr std::string_view kName = "move";
  [[nodiscard]] static Status check(const Rewriter& rewriter, const MoveDecision& decision);
  static void apply(Rewriter& rewriter, const MoveDecision& decision);
};

}  // namespace ebb
