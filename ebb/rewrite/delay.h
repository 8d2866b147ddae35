// Makes an operation run after another one (the paper's section 4.3): a control edge.
//
// Before:  a,  b
// After:   b ┄┄► a
// When:    both are operations that control flow lets wait for each other, and b does not wait
//          for a.
// Why:     an order among those that the graph allows is picked; nothing that is computed changes.
//          Where a stands above b, it moves below, and what waits for it and stands between as
//          well, unless that turned round two operations that are random or have effects, whose
//          order is in the lines only (docs/decisions).
#pragma once

#include <string_view>

#include "ebb/base/result.h"
#include "ebb/rewrite/decision.h"

namespace ebb {

class Rewriter;

struct Delay {
  static constexpr std::string_view kName = "delay";
  [[nodiscard]] static Status check(const Rewriter& rewriter, const DelayDecision& decision);
  static void apply(Rewriter& rewriter, const DelayDecision& decision);
};

}  // namespace ebb
