// V20 and V21: what rewriting adds to a graph.
#include <algorithm>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/repeatable.h"
#include "ebb/graph/verify_checks.h"

namespace ebb {
namespace {

// The one tensor a swap reads, or not valid when it has another number of operands.
TensorId only_operand(const Graph& graph, NodeId node) {
  const auto operands = graph.operands(node);
  const bool one = operands.size() == 1 && operands[0].position == Operand::Position::kAlone &&
                   operands[0].access == Access::kRead;
  return one ? operands[0].tensor : TensorId();
}

bool differ_only_in_residence(const TensorType& a, const TensorType& b) {
  return a.residence != b.residence && on_host(a) == on_host(b);
}

void check_swap_out(const Graph& graph, NodeId node, Findings& findings) {
  const TensorId source = only_operand(graph, node);
  if (!source.valid() || graph.results(node).size() != 1) {
    findings.add(node, "the swap-out '{}' takes one tensor and makes one", graph.name(node));
    return;
  }
  const TensorId copy = graph.results(node)[0];
  if (graph.type(copy).residence != Residence::kHost ||
      !differ_only_in_residence(graph.type(source), graph.type(copy))) {
    findings.add(node, "the swap-out '{}' makes {} of {}; it makes the same type on the host",
                 graph.name(node), to_text(graph.type(copy)), to_text(graph.type(source)));
  }
}

bool same_attributes(const Graph& graph, NodeId a, NodeId b) {
  const auto without_notes = [&](NodeId node) {
    std::vector<Attribute> kept;
    for (const Attribute& attribute : graph.attributes(node)) {
      if (!is_note(graph.text(attribute.key))) kept.push_back(attribute);
    }
    return kept;
  };
  const std::vector<Attribute> of_a = without_notes(a);
  const std::vector<Attribute> of_b = without_notes(b);
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                    [&](const Attribute& x, const Attribute& y) {
                      return x.key == y.key && x.is_list == y.is_list &&
                             std::equal(graph.items(x).begin(), graph.items(x).end(),
                                        graph.items(y).begin(), graph.items(y).end(), same_value);
                    });
}

// What was encoded and decoded again on the host to make this tensor; not valid when that is not
// how it was made.
TensorId through_host_codec(const Graph& graph, TensorId decoded) {
  const NodeId decode = graph.producer(decoded);
  const TensorId code = only_operand(graph, decode);
  if (!code.valid() || graph.type(code).residence != Residence::kHost) return {};
  const NodeId encode = graph.producer(code);
  const TensorId source = only_operand(graph, encode);
  const bool is_pair = graph.op(encode) == kEncode && source.valid() &&
                       same_attributes(graph, encode, decode) &&
                       graph.type_id(source) == graph.type_id(decoded);
  return is_pair ? source : TensorId();
}

void check_swap_in(const Graph& graph, NodeId node, Findings& findings) {
  const TensorId source = only_operand(graph, node);
  if (!source.valid() || graph.results(node).size() != 1) {
    findings.add(node, "the swap-in '{}' takes one tensor and makes one", graph.name(node));
    return;
  }
  NodeId maker = graph.producer(source);
  if (graph.op(maker) == kDecode) {
    const TensorId encoded = through_host_codec(graph, source);
    if (!encoded.valid() || graph.op(graph.producer(encoded)) != kSwapOut) {
      findings.add(
          node,
          "the swap-in '{}' reads %{}, which '{}' decodes; on the host it decodes what the "
          "same codec encoded there of what a swap-out made",
          graph.name(node), graph.name(source), graph.name(maker));
      return;
    }
    maker = graph.producer(encoded);
  }
  if (graph.op(maker) != kSwapOut) {
    findings.add(node,
                 "the swap-in '{}' reads %{}, which '{}' makes; it reads what a swap-out made",
                 graph.name(node), graph.name(source), graph.name(maker));
    return;
  }
  const TensorId copy = graph.results(node)[0];
  if (!differ_only_in_residence(graph.type(source), graph.type(copy))) {
    findings.add(node, "the swap-in '{}' makes {} of {}; it makes the same type on the device",
                 graph.name(node), to_text(graph.type(copy)), to_text(graph.type(source)));
  }
}

// The same shape of call: which operands are there, which are lists, and the host numbers.
bool same_call(const Graph& graph, NodeId a, NodeId b) {
  return std::equal(graph.operands(a).begin(), graph.operands(a).end(), graph.operands(b).begin(),
                    graph.operands(b).end(),
                    [](const Operand& x, const Operand& y) {
                      return x.tensor.valid() == y.tensor.valid() && x.position == y.position &&
                             x.access == y.access;
                    }) &&
         std::equal(graph.scalar_arguments(a).begin(), graph.scalar_arguments(a).end(),
                    graph.scalar_arguments(b).begin(), graph.scalar_arguments(b).end(), same_value);
}

bool same_result_types(const Graph& graph, NodeId a, NodeId b) {
  const ScalarId scalar_a = graph.scalar_result(a);
  const ScalarId scalar_b = graph.scalar_result(b);
  if (scalar_a.valid() != scalar_b.valid()) return false;
  if (scalar_a.valid() && graph.dtype(scalar_a) != graph.dtype(scalar_b)) return false;
  return std::equal(graph.results(a).begin(), graph.results(a).end(), graph.results(b).begin(),
                    graph.results(b).end(),
                    [&](TensorId x, TensorId y) { return graph.type_id(x) == graph.type_id(y); });
}

// Whether something that the step may need is overwritten.
bool updates_more_than_snapshots(const Graph& graph, NodeId node) {
  const auto operands = graph.operands(node);
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    return operand.access == Access::kUpdate && operand.tensor.valid() &&
           graph.op(graph.producer(operand.tensor)) != kSnapshot;
  });
}

}  // namespace

void check_swaps_come_in_pairs(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    if (graph.op(node) == kSwapOut) check_swap_out(graph, node, findings);
    if (graph.op(node) == kSwapIn) check_swap_in(graph, node, findings);
  }
}

void check_clones_repeat_their_original(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    const NodeId original = graph.clone_of(node);
    if (!original.valid()) continue;
    const auto complain = [&](std::string_view why) {
      findings.add(node, "'{}' is a clone of '{}', but {}", graph.name(node), graph.name(original),
                   why);
    };
    if (!graph.is_op(original)) {
      complain("that is given from outside, not computed");
    } else if (graph.clone_of(original).valid()) {
      complain("that is a clone itself; name the original");
    } else if (graph.effect(original) == Effect::kRandom) {
      complain("that is random and runs once");
    } else if (graph.effect(original) == Effect::kEffect) {
      complain("that has an effect and runs once");
    } else if (find_handle(graph, original).valid()) {
      complain("that reads through a handle, behind which anything may change");
    } else if (steers_control_flow(graph, original)) {
      complain("that steers control flow, of which there is one");
    } else if (graph.op(node) != graph.op(original) || graph.effect(node) != Effect::kPure) {
      complain("the operators differ");
    } else if (!same_attributes(graph, node, original)) {
      complain("the attributes differ");
    } else if (updates_more_than_snapshots(graph, node)) {
      complain("it updates an operand; compute it again from a snapshot");
    } else if (!same_call(graph, node, original)) {
      complain("the operands differ in number or in kind");
    } else if (!same_result_types(graph, node, original)) {
      complain("the types of the results differ");
    }
  }
}

}  // namespace ebb
