#include "ebb/rewrite/swap.h"

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/rewrite/codec.h"
#include "ebb/rewrite/readers.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {
namespace {

// What speaks against taking the source to the host, whoever reads it.
Objection objection_to_source(const Graph& graph, TensorId source, std::string_view codec) {
  const TensorType& type = graph.type(source);
  if (type.residence == Residence::kHost) return "it is on the host already";
  if (element_size(type.dtype) == 0) {
    return fmt::format("values of type {} have no fixed size", name(type.dtype));
  }
  const NodeId maker = graph.producer(source);
  if (graph.op(maker) == kSwapIn || graph.op(maker) == kDecode) {
    return fmt::format("'{}' has just brought it back; change the swap that did",
                       graph.name(maker));
  }
  if (graph.op(maker) == kEncode) {
    return fmt::format("'{}' has encoded it for the host; change the swap that did",
                       graph.name(maker));
  }
  if (codec.empty()) return std::nullopt;
  const auto encoded = encoded_type(codec, type);
  return encoded ? std::nullopt : Objection(encoded.error());
}

NodeId first_reader_of_all(const Rewriter& rewriter, const SwapDecision& decision) {
  NodeId first;
  for (const ReaderGroup& group : decision.groups) {
    const NodeId reader = first_reader(rewriter, group);
    if (!first.valid() || rewriter.lines().is_before(reader, first)) first = reader;
  }
  return first;
}

Operand read_of(TensorId tensor) { return Operand{.tensor = tensor}; }

// The maker, or the last of the swap-outs right below it: those of its other results.
NodeId last_leaving(const Rewriter& rewriter, NodeId maker) {
  const Graph& graph = rewriter.graph();
  const auto leaves = [&](NodeId line) {
    if (graph.op(line) != kSwapOut && graph.op(line) != kEncode) return false;
    const auto operands = graph.operands(line);
    if (operands.empty() || !operands[0].tensor.valid()) return false;
    const NodeId from = graph.producer(operands[0].tensor);
    return from == maker || graph.op(from) == kEncode;
  };
  NodeId last = maker;
  for (NodeId line = rewriter.lines().next(maker); line.valid() && leaves(line);
       line = rewriter.lines().next(line)) {
    last = line;
  }
  return last;
}

// The copy on the host, made right below the maker of the source unless there is one already.
TensorId find_or_make_host_copy(Rewriter& rewriter, TensorId source, const std::string& codec,
                                NodeId limit) {
  const Graph& graph = rewriter.graph();
  const std::string way =
      codec.empty() ? std::string(kSwapOut) : fmt::format("{} {}", kSwapOut, codec);
  const TensorId known = rewriter.find_copy(source, way);
  if (known.valid() && rewriter.lines().is_before(graph.producer(known), limit)) return known;

  const NodeId maker = graph.producer(source);
  const ScopeId scope = graph.scope(maker);
  TensorId leaving = source;
  NodeId above = last_leaving(rewriter, maker);
  if (!codec.empty()) {
    const Operand operand = read_of(source);
    above = rewriter.add_op(kEncode, {&operand, 1}, Rewriter::Place::right_below(above));
    rewriter.set_place_of_execution(above, maker, scope);
    rewriter.add_attribute(above, kCodecAttribute, codec);
    leaving = rewriter.add_result(above, source, ".code", *encoded_type(codec, graph.type(source)));
  }
  const Operand operand = read_of(leaving);
  const NodeId out = rewriter.add_op(kSwapOut, {&operand, 1}, Rewriter::Place::right_below(above));
  rewriter.set_place_of_execution(out, maker, scope);
  const TensorId host =
      rewriter.add_result(out, source, ".host", on_host(TensorType(graph.type(leaving))));
  rewriter.note_copy(source, way, host);
  return host;
}

void bring_back(Rewriter& rewriter, TensorId source, TensorId host, const ReaderGroup& group,
                const std::string& codec) {
  const Graph& graph = rewriter.graph();
  const NodeId maker = graph.producer(source);
  const NodeId out = graph.producer(host);
  const NodeId first = first_reader(rewriter, group);
  const NodeId above = rewriter.lines().is_before(group.trigger, out) ? out : group.trigger;
  const ScopeId scope = scope_of_copy(rewriter, source, group);
  const TensorId left = graph.operands(out)[0].tensor;  // the source, or its code

  const Operand arriving = read_of(host);
  const NodeId in = rewriter.add_op(kSwapIn, {&arriving, 1}, Rewriter::Place::below(above, first));
  rewriter.set_place_of_execution(in, maker, scope);
  rewriter.add_control(in, group.trigger);
  TensorId back = rewriter.add_result(in, left, ".back", graph.type(left));
  if (!codec.empty()) {
    const Operand code = read_of(back);
    const NodeId decode = rewriter.add_op(kDecode, {&code, 1}, Rewriter::Place::below(in, first));
    rewriter.set_place_of_execution(decode, maker, scope);
    rewriter.add_attribute(decode, kCodecAttribute, codec);
    back = rewriter.add_result(decode, source, ".back", graph.type(source));
  }
  move_readers(rewriter, source, back, group, ".back");
}

}  // namespace

Status Swap::check(const Rewriter& rewriter, const SwapDecision& decision) {
  const auto refuse = [&](const std::string& reason) {
    return fail(refused(rewriter, kName, decision.tensor, reason));
  };
  const auto source = find_source(rewriter, decision.tensor);
  if (!source) return refuse(source.error());
  if (const auto why = objection_to_source(rewriter.graph(), *source, decision.codec)) {
    return refuse(*why);
  }
  if (const auto why = find_objection(rewriter, *source, decision.groups)) return refuse(*why);
  return {};
}

void Swap::apply(Rewriter& rewriter, const SwapDecision& decision) {
  const TensorId source = *find_source(rewriter, decision.tensor);
  const TensorId host = find_or_make_host_copy(rewriter, source, decision.codec,
                                               first_reader_of_all(rewriter, decision));
  for (const ReaderGroup& group : decision.groups) {
    bring_back(rewriter, source, host, group, decision.codec);
  }
}

}  // namespace ebb
