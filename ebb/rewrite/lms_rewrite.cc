#include "ebb/rewrite/lms_rewrite.h"

#include <utility>

#include "ebb/order/liveness.h"
#include "ebb/rewrite/lms_sync.h"

namespace ebb {

Peak find_peak(const Graph& graph) {
  if (graph.order().empty()) return {};
  const MemoryCurve curve = memory_curve(graph, find_lives(graph));
  return {.bytes = curve.peak, .node = graph.order()[curve.peak_position], .host = curve.host_peak};
}

Result<LmsRewritten> rewrite_by_lms(const Graph& graph, const LmsOptions& options,
                                    const RewriterOptions& rewriting) {
  LmsRewritten done;
  done.graph = graph;
  Rewriter rewriter(done.graph, rewriting);
  // The driver looks at the original, whose ids mean the same in the copy.
  auto plan =
      choose_swaps(graph, options, [&](const SwapDecision& swap) { return rewriter.apply(swap); });
  if (!plan) return fail(plan.error());
  done.plan = *std::move(plan);
  if (options.sync > 0 && done.plan.backward_operations > 0) {
    LmsSync sync =
        synchronize(rewriter, find_phases(graph, options.optimizer_scopes), options.sync);
    done.plan.delays = std::move(sync.delays);
    done.plan.delays_refused = sync.refused;
  }
  rewriter.settle();
  done.journal = rewriter.journal();
  done.proof = prove_rewrite(graph, done.graph);
  done.before = find_peak(graph);
  done.after = find_peak(done.graph);
  return done;
}

}  // namespace ebb
