#include "ebb/rewrite/split.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/graph/convolution_backward.h"
#include "ebb/rewrite/readers.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {
namespace {

Objection objection_to_call(const Graph& graph, NodeId call) {
  if (graph.op(call) != kConvolutionBackward) {
    return Reason{"R16", fmt::format("it is no {}", kConvolutionBackward)};
  }
  const auto mask = gradient_mask(graph, call);
  if (!mask) {
    return Reason{"R16", fmt::format("its operands, its results and its {} do not fit together",
                                     kOutputMask)};
  }
  if (!(*mask)[0] || graph.results(call).size() == 1) {
    return Reason{"R16", "it does not compute the gradient of its input beside another"};
  }
  const TensorId input = graph.operands(call)[kConvolutionInput].tensor;
  if (!input.valid()) return Reason{"R16", "it has no input"};
  const TensorId gradient = graph.results(call)[0];
  if (graph.type_id(input) != graph.type_id(gradient)) {
    return Reason{"R16",
                  fmt::format("its input %{} is {}, and the gradient of that {}", graph.name(input),
                              to_text(graph.type(input)), to_text(graph.type(gradient)))};
  }
  return std::nullopt;
}

Objection objection_to_clones(const Graph& graph, NodeId call) {
  if (const NodeId original = graph.clone_of(call); original.valid()) {
    return Reason{"R04", fmt::format("it computes '{}' again, which can be split before",
                                     graph.name(original))};
  }
  const auto nodes = graph.nodes();
  const auto clone = std::find_if(nodes.begin(), nodes.end(),
                                  [&](NodeId node) { return graph.clone_of(node) == call; });
  if (clone == nodes.end()) return std::nullopt;
  return Reason{"R04", fmt::format("'{}' computes it again; split first", graph.name(*clone))};
}

}  // namespace

Status Split::check(const Rewriter& rewriter, const SplitDecision& decision) {
  const Graph& graph = rewriter.graph();
  const auto refuse = [&](const Reason& reason) {
    return fail(refused(kName, fmt::format("'{}'", graph.name(decision.node)), reason));
  };
  if (const auto why = objection_to_call(graph, decision.node)) return refuse(*why);
  if (graph.effect(decision.node) != Effect::kPure) {
    return refuse({"R05", "it is random or has an effect, and runs once"});
  }
  if (const auto why = objection_to_clones(graph, decision.node)) return refuse(*why);
  Totals growth;
  growth.add_workspace(graph.workspace(decision.node));
  if (const auto why = objection_to_growth(rewriter, growth)) return refuse(*why);
  return {};
}

void Split::apply(Rewriter& rewriter, const SplitDecision& decision) {
  const Graph& graph = rewriter.graph();
  const NodeId call = decision.node;
  const GradientMask mask = gradient_mask(graph, call).value_or(GradientMask{});
  const NodeId others = rewriter.add_part(call, 1);
  rewriter.set_flags(others, kOutputMask, GradientMask{false, mask[1], mask[2]});
  rewriter.set_flags(call, kOutputMask, GradientMask{true, false, false});
  rewriter.move_edge(call, kConvolutionInput, TensorId());
  rewriter.add_control(call, others);
}

}  // namespace ebb
