#include "ebb/rewrite/move.h"

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/views.h"
#include "ebb/rewrite/readers.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {

Status Move::check(const Rewriter& rewriter, const MoveDecision& decision) {
  const Graph& graph = rewriter.graph();
  const auto refuse = [&](std::string_view code, std::string reason) {
    return fail(refused(kName, fmt::format("'{}'", graph.name(decision.node)),
                        {.code = code, .text = std::move(reason)}));
  };
  const bool is_copy = graph.op(decision.node) == kSwapOut || graph.op(decision.node) == kSwapIn;
  const bool is_clone = graph.clone_of(decision.node).valid();
  if (!is_copy && !is_clone) {
    return refuse("R15", "it is neither a swap-out nor a swap-in nor a clone");
  }
  if (!rewriter.lines().is_before(decision.node, decision.below)) {
    return refuse("R15", fmt::format("it does not stand above '{}'", graph.name(decision.below)));
  }
  for (const NodeId waiting : rewriter.waiting_down_to(decision.node, decision.below)) {
    const bool moves_along =
        makes_only_views(graph, waiting) || (is_clone && graph.clone_of(waiting).valid());
    if (waiting != decision.below && moves_along) continue;
    return refuse("R09", fmt::format("'{}' waits for it", graph.name(waiting)));
  }
  return {};
}

void Move::apply(Rewriter& rewriter, const MoveDecision& decision) {
  NodeId above = decision.below;
  const auto along = rewriter.waiting_down_to(decision.node, decision.below);
  rewriter.move_line_after(above, decision.node);
  above = decision.node;
  for (const NodeId node : along) {
    rewriter.move_line_after(above, node);
    above = node;
  }
}

}  // namespace ebb
