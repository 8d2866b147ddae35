// Computes a tensor again for its late readers (the paper's future work).
//
// Before:  u ──%t──► v
// After:   u ──%t──►,   u' ──%t.again──► v,   g ┄┄► u'        (u' a clone of u)
//          one clone a group of readers, right above its first reader.
// When:    u is pure, no clone itself and reads through no handle; nobody updates %t later; every v
//          of the group waits for g in the dependence order.
// Why:     u' reads what u read. An operand that is overwritten before u' runs is read from a copy
//          taken right above the update (ebb::snapshot); one that is overwritten later waits for
//          u', which stands above it, so no cycle closes. What u updates (batch normalisation its
//          running statistics), u' updates on a copy of its own, taken right above u; it waits for
//          u then, so that its readers still wait for all that u waits for.
//
// A chain is several decisions, last first: `recompute %b for r after g`, then `recompute %a for
// b.again after g`.
#pragma once

#include <string_view>

#include "ebb/base/result.h"
#include "ebb/rewrite/decision.h"

namespace ebb {

class Rewriter;

struct Recompute {
  static constexpr std::string_view kName = "recompute";
  [[nodiscard]] static Status check(const Rewriter& rewriter, const RecomputeDecision& decision);
  static void apply(Rewriter& rewriter, const RecomputeDecision& decision);
};

}  // namespace ebb
