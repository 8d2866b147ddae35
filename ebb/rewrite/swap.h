// Moves a storage to the host and back for its late readers (the paper's equations 2 to 5, and
// their fusing, section 4.2).
//
// Before:  u ──%t──► v
// After:   u ──%t──► swap_out ──%t.host──► swap_in ──%t.back──► v,   g ┄┄► swap_in
//          one swap-out a storage, right below u; one swap-in a group of readers, right below its
//          trigger g (or below the swap-out, where that stands later).
//          With a codec on the device: encode above the swap-out, decode below the swap-in. On the
//          host: encode below the swap-out; decode, which then waits for g, above the swap-in.
// When:    %t is on the device, is no variable's, and nobody updates it later; every v of the group
//          waits for g in the dependence order. With a codec: it takes %t's type and serves v.
// Why:     all new nodes together are the identity (a lossy codec apart, which somebody asked for);
//          erasing them gives the graph we began with. What v waits for through the swap-in, u and
//          g, it waited for before: no cycle closes.
#pragma once

#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/rewrite/decision.h"

namespace ebb {

class Rewriter;

struct Swap {
  static constexpr std::string_view kName = "swap";
  // Ok, or "rule swap does not apply to %a: 'c' runs after 'b', which would wait for it".
  [[nodiscard]] static Status check(const Rewriter& rewriter, const SwapDecision& decision);
  static void apply(Rewriter& rewriter, const SwapDecision& decision);
  // In which way what waits on the host was made, for Rewriter::find_copy.
  static std::string way(std::string_view codec, CodecSide side);
};

}  // namespace ebb
