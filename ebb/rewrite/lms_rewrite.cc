#include "ebb/rewrite/lms_rewrite.h"

#include <utility>

#include "ebb/order/liveness.h"

namespace ebb {
namespace {

// The counts of what remained after the rule refused some.
void count_swaps(const Graph& graph, const LmsOptions& options, LmsPlan& plan) {
  plan.swap_ins = 0;
  plan.bytes = {};
  plan.unknown_sizes = 0;
  plan.not_encoded = 0;
  for (const SwapDecision& swap : plan.swaps) {
    const auto size = graph.size(graph.storage(swap.tensor));
    plan.swap_ins += swap.groups.size();
    plan.bytes += size.value_or(Bytes{});
    plan.unknown_sizes += size ? 0 : 1;
    plan.not_encoded += !options.codec.empty() && swap.codec.empty() ? 1 : 0;
  }
}

// Applies what the rule takes; the rest becomes edges that were left alone.
void apply_swaps(Rewriter& rewriter, LmsPlan& plan) {
  std::vector<SwapDecision> applied;
  for (SwapDecision& swap : plan.swaps) {
    if (Status done = rewriter.apply(swap); !done) {
      for (const ReaderGroup& group : swap.groups) {
        for (const NodeId reader : group.readers) {
          plan.refused.push_back({swap.tensor, reader, LmsRefusal::kByRule, done.error().message});
        }
      }
      continue;
    }
    applied.push_back(std::move(swap));
  }
  plan.swaps = std::move(applied);
}

}  // namespace

Peak find_peak(const Graph& graph) {
  if (graph.order().empty()) return {};
  const MemoryCurve curve = memory_curve(graph, find_lives(graph));
  return {.bytes = curve.peak, .node = graph.order()[curve.peak_position], .host = curve.host_peak};
}

Result<LmsRewritten> rewrite_by_lms(const Graph& graph, const LmsOptions& options,
                                    const RewriterOptions& rewriting) {
  auto plan = choose_swaps(graph, options);
  if (!plan) return fail(plan.error());
  LmsRewritten done;
  done.graph = graph;
  done.plan = *std::move(plan);
  const std::size_t chosen = done.plan.swaps.size();
  Rewriter rewriter(done.graph, rewriting);
  apply_swaps(rewriter, done.plan);
  if (done.plan.swaps.size() != chosen) count_swaps(graph, options, done.plan);
  rewriter.settle();
  done.journal = rewriter.journal();
  done.proof = prove_rewrite(graph, done.graph);
  done.before = find_peak(graph);
  done.after = find_peak(done.graph);
  return done;
}

}  // namespace ebb
