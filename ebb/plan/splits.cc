#include "ebb/plan/splits.h"

#include <algorithm>
#include <map>
#include <string>

#include "ebb/base/check.h"
#include "ebb/graph/convolution_backward.h"
#include "ebb/order/liveness.h"
#include "ebb/plan/infeasible.h"
#include "ebb/plan/plan.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {
namespace {

// What there need not be at the line of the call once it is two.
Bytes saved_by_splitting(const Graph& graph, NodeId call) {
  const auto size = [&](TensorId tensor) {
    return graph.size(graph.storage(tensor)).value_or(Bytes{});
  };
  return std::min(size(graph.operands(call)[kConvolutionInput].tensor),
                  size(graph.results(call)[0]));
}

}  // namespace

std::vector<NodeId> find_splittable(const Graph& graph) {
  std::vector<NodeId> calls;
  for (const NodeId node : graph.order()) {
    if (graph.op(node) == kConvolutionBackward) calls.push_back(node);
  }
  if (calls.empty()) return calls;
  // One after the other, because all of them together are to be possible.
  Graph copy = graph;
  Rewriter rewriter(copy, {.verify_each = false});
  std::erase_if(calls, [&](NodeId call) { return !rewriter.apply(SplitDecision{call}); });
  return calls;
}

Graph with_splits(Graph graph, std::span<const NodeId> calls) {
  if (calls.empty()) return graph;
  Rewriter rewriter(graph, {.verify_each = false});
  for (const NodeId call : calls) {
    const Status done = rewriter.apply(SplitDecision{call});
    EBB_CHECK(done.has_value(), "what can be split was refused: {}", done.error().message);
  }
  rewriter.settle();
  return graph;
}

std::vector<NodeId> find_at_peak(const Plan& plan, std::span<const NodeId> calls) {
  const Graph graph = with_workspaces(plan.graph, plan.costs);
  const MemoryCurve curve = memory_curve(graph, find_lives(graph));
  std::vector<std::size_t> line(graph.node_count());
  for (std::size_t i = 0; i < graph.order().size(); ++i) line[graph.order()[i].index()] = i;
  std::vector<NodeId> found;
  for (const NodeId call : calls) {
    const Bytes held = curve.device[line[call.index()]];
    if (held + saved_by_splitting(graph, call) > curve.peak) found.push_back(call);
  }
  return found;
}

Profile with_halves(const Profile& profile, const Graph& graph) {
  const std::vector<NodeId> calls = find_splittable(graph);
  const Graph split = with_splits(graph, calls);
  std::map<std::string, ProfiledOperation> halves;
  const auto add = [&](NodeId call, Duration time, Bytes workspace) {
    ProfiledOperation half{
        .signature = signature(split, call), .time = time, .workspace = workspace};
    if (profile.find(half.signature) != nullptr) return;
    // Different calls may have the same half: with and without a bias.
    ProfiledOperation& known = halves.try_emplace(half.signature, half).first->second;
    known.time = std::max(known.time, half.time);
    known.workspace = std::max(known.workspace, half.workspace);
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const ProfiledOperation* whole = profile.find(signature(graph, calls[i]));
    if (whole == nullptr) continue;
    add(calls[i], whole->time / 2, whole->workspace);
    add(NodeId(static_cast<std::uint32_t>(graph.node_count() + i)), whole->time - whole->time / 2,
        whole->workspace);
  }
  std::vector<ProfiledOperation> operations = profile.operations();
  for (const auto& [signature, half] : halves) operations.push_back(half);
  return Profile::make(profile.device(), std::move(operations)).value();
}

}  // namespace ebb
