#include "ebb/rewrite/delay.h"

#include <vector>

#include <fmt/format.h>

#include "ebb/graph/control_flow.h"
#include "ebb/graph/dependence.h"
#include "ebb/rewrite/readers.h"
#include "ebb/rewrite/rewriter.h"
#include "ebb/rewrite/scopes.h"

namespace ebb {
namespace {

// The lines from the node down to the one it is to stand below, by whether they move along.
struct Stretch {
  std::vector<NodeId> moving;
  std::vector<NodeId> staying;
};

Stretch lines_between(const Rewriter& rewriter, const DelayDecision& decision) {
  Stretch stretch;
  if (rewriter.lines().is_before(decision.after, decision.node)) return stretch;
  const std::vector<NodeId> waiting = rewriter.waiting_down_to(decision.node, decision.after);
  stretch.moving.push_back(decision.node);
  auto mover = waiting.begin();
  for (NodeId line = decision.node; line != decision.after;) {
    line = rewriter.lines().next(line);
    const bool moves = mover != waiting.end() && *mover == line;
    if (moves) ++mover;
    (moves ? stretch.moving : stretch.staying).push_back(line);
  }
  return stretch;
}

// Two operations whose order the world would see.
NodeId first_seen_outside(const Graph& graph, const std::vector<NodeId>& nodes) {
  for (const NodeId node : nodes) {
    if (is_ordered_by_lines(graph, node)) return node;
  }
  return {};
}

}  // namespace

Status Delay::check(const Rewriter& rewriter, const DelayDecision& decision) {
  const Graph& graph = rewriter.graph();
  const auto [node, after] = decision;
  const auto refuse = [&](std::string_view code, std::string reason) {
    return fail(refused(kName, fmt::format("'{}'", graph.name(decision.node)),
                        {.code = code, .text = std::move(reason)}));
  };
  for (const NodeId each : {node, after}) {
    if (!graph.is_op(each)) {
      return refuse("R08",
                    fmt::format("'{}' is given from outside; only operations wait for each other",
                                graph.name(each)));
    }
  }
  if (node == after) return refuse("R09", "it cannot wait for itself");
  if (rewriter.waits(after, node)) {
    return refuse("R09", fmt::format("'{}' runs after '{}', which would wait for it",
                                     graph.name(after), graph.name(node)));
  }
  if (!runs_whenever(graph, graph.scope(after), graph.scope(node))) {
    return refuse("R11",
                  fmt::format("{} does not always run with {}; control does not cross a frame or "
                              "leave a branch",
                              with_scope(graph, node), with_scope(graph, after)));
  }
  if (leads_elsewhere(graph, after)) {
    return refuse("R11", fmt::format("who waits for '{}' waits inside a loop or in its next round",
                                     graph.name(after)));
  }
  if (comes_from_elsewhere(graph, node)) {
    return refuse("R11", fmt::format("'{}' leaves a loop, and waits inside it", graph.name(node)));
  }
  const Stretch stretch = lines_between(rewriter, decision);
  const NodeId moving = first_seen_outside(graph, stretch.moving);
  const NodeId staying = first_seen_outside(graph, stretch.staying);
  if (moving.valid() && staying.valid()) {
    return refuse("R14",
                  fmt::format("'{}' would move below '{}', and both are random or have effects",
                              graph.name(moving), graph.name(staying)));
  }
  return {};
}

void Delay::apply(Rewriter& rewriter, const DelayDecision& decision) {
  // Where questions are searched anyway, one more control edge needs no search of its own.
  const bool is_new = !rewriter.has_new_order() && !rewriter.waits(decision.node, decision.after);
  NodeId above = decision.after;
  for (const NodeId line : lines_between(rewriter, decision).moving) {
    rewriter.move_line_after(above, line);
    above = line;
  }
  rewriter.add_control(decision.node, decision.after);
  if (is_new) rewriter.note_wait(decision.node, decision.after, true);
}

}  // namespace ebb
