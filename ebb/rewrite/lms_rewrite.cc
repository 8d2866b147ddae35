#include "ebb/rewrite/lms_rewrite.h"

#include <utility>

#include "ebb/order/liveness.h"
#include "ebb/rewrite/lms_names.h"
#include "ebb/rewrite/lms_recompute.h"
#include "ebb/rewrite/lms_sync.h"

namespace ebb {

Peak find_peak(const Graph& graph) {
  if (graph.order().empty()) return {};
  const MemoryCurve curve = memory_curve(graph, find_lives(graph));
  return {.bytes = curve.peak, .node = graph.order()[curve.peak_position], .host = curve.host_peak};
}

Result<LmsPlan> apply_lms(const Graph& original, Rewriter& rewriter, const LmsOptions& options) {
  if (auto status = check_lms_options(original, options); !status) return fail(status.error());
  const auto apply = [&](const SwapDecision& swap) { return rewriter.apply(swap); };
  LmsPlan before;
  Graph with_clones;
  if (!options.recompute_types.empty()) {
    choose_recomputes(original, options, rewriter, before);
    rewriter.settle();
    // The driver looks at a graph that nothing changes, whose ids mean the same in the copy.
    if (!before.recomputes.empty()) with_clones = rewriter.graph();
  }
  const bool has_clones = !before.recomputes.empty();
  const Graph& looked_at = has_clones ? with_clones : original;
  auto plan = choose_swaps(looked_at, options, apply);
  if (!plan) return plan;
  if (has_clones) {
    plan->recomputes = std::move(before.recomputes);
    plan->recomputations = before.recomputations;
    plan->bytes_recomputed = before.bytes_recomputed;
    plan->unknown_recomputed = before.unknown_recomputed;
    plan->backward_operations = before.backward_operations;
  }
  plan->refused.insert(plan->refused.begin(), before.refused.begin(), before.refused.end());
  if (options.sync > 0 && plan->backward_operations > 0) {
    LmsSync sync =
        synchronize(rewriter, find_phases(looked_at, options.optimizer_scopes), options.sync);
    plan->delays = std::move(sync.delays);
    plan->delays_refused = sync.refused;
  }
  return plan;
}

Result<LmsRewritten> rewrite_by_lms(const Graph& graph, const LmsOptions& options,
                                    const RewriterOptions& rewriting) {
  LmsRewritten done;
  done.graph = graph;
  Rewriter rewriter(done.graph, rewriting);
  auto plan = apply_lms(graph, rewriter, options);
  if (!plan) return fail(plan.error());
  done.plan = *std::move(plan);
  rewriter.settle();
  done.journal = rewriter.journal();
  done.proof = prove_rewrite(graph, done.graph);
  done.before = find_peak(graph);
  done.after = find_peak(done.graph);
  return done;
}

}  // namespace ebb
