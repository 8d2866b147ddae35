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
  if (type.residence == Residence::kHost) return Reason{"R03", "it is on the host already"};
  if (element_size(type.dtype) == 0) {
    return Reason{"R03", fmt::format("values of type {} have no fixed size", name(type.dtype))};
  }
  const NodeId maker = graph.producer(source);
  if (graph.op(maker) == kSwapIn || graph.op(maker) == kDecode) {
    return Reason{"R04", fmt::format("'{}' has just brought it back; change the swap that did",
                                     graph.name(maker))};
  }
  if (graph.op(maker) == kEncode) {
    return Reason{"R04", fmt::format("'{}' has encoded it for the host; change the swap that did",
                                     graph.name(maker))};
  }
  if (codec.empty()) return std::nullopt;
  const auto encoded = encoded_type(codec, type);
  return encoded ? std::nullopt : Objection(Reason{"R12", encoded.error()});
}

// At most; some of it may be there already.
void add_copies(const Graph& graph, TensorId source, const SwapDecision& decision, Totals& growth) {
  const TensorType& type = graph.type(source);
  const TensorType code = decision.codec.empty() ? type : *encoded_type(decision.codec, type);
  growth.add(type);
  for (std::size_t group = 0; group < decision.groups.size(); ++group) {
    growth.add(type);
    if (decision.codec.empty()) continue;
    growth.add(type);
    growth.add(code);
  }
  if (decision.codec.empty()) return;
  growth.add(code);
  growth.add(code);
}

NodeId first_reader_of_all(const Rewriter& rewriter, const SwapDecision& decision) {
  NodeId first;
  for (const ReaderGroup& group : decision.groups) {
    const NodeId reader = first_reader(rewriter, group);
    if (!first.valid() || rewriter.lines().is_before(reader, first)) first = reader;
  }
  return first;
}

// A copy of one tensor; it runs where the maker of the source does, or its reader, where the source
// is given from outside.
struct Copying {
  Rewriter& rewriter;
  TensorId source;
  ScopeId scope;
  NodeId reader;

  NodeId add(std::string_view op, TensorId operand, const Rewriter::Place& place) const {
    const Operand read{.tensor = operand};
    const NodeId node = rewriter.add_op(op, {&read, 1}, place);
    const NodeId maker = rewriter.graph().producer(source);
    rewriter.set_place_of_execution(node, rewriter.graph().is_op(maker) ? maker : reader, scope);
    return node;
  }
  NodeId add_codec(std::string_view op, TensorId operand, const Rewriter::Place& place,
                   std::string_view codec) const {
    const NodeId node = add(op, operand, place);
    rewriter.add_attribute(node, kCodecAttribute, codec);
    return node;
  }
};

// The maker, or the last of the lines right below it that take its results to the host. Those that
// swaps have put there are not walked over again.
NodeId last_leaving(const Rewriter& rewriter, NodeId maker) {
  const Graph& graph = rewriter.graph();
  const auto leaves = [&](NodeId line) {
    if (graph.op(line) != kSwapOut && graph.op(line) != kEncode) return false;
    const auto operands = graph.operands(line);
    if (operands.empty() || !operands[0].tensor.valid()) return false;
    const NodeId from = graph.producer(operands[0].tensor);
    return from == maker || graph.op(from) == kEncode || graph.op(from) == kSwapOut;
  };
  NodeId last = rewriter.last_swap_out(maker);
  if (!last.valid()) last = maker;
  for (NodeId line = rewriter.lines().next(last); line.valid() && leaves(line);
       line = rewriter.lines().next(line)) {
    last = line;
  }
  return last;
}

// What waits on the host, made right below the maker of the source unless it is there already.
TensorId find_or_make_host_copy(Rewriter& rewriter, TensorId source, const std::string& codec,
                                CodecSide side, NodeId limit) {
  const Graph& graph = rewriter.graph();
  const std::string way = Swap::way(codec, side);
  const TensorId known = rewriter.find_copy(source, way);
  if (known.valid() && rewriter.lines().is_before(graph.producer(known), limit)) return known;

  const NodeId maker = graph.producer(source);
  const Copying copying{rewriter, source, graph.scope(maker), limit};
  TensorId waiting;
  if (!codec.empty() && side == CodecSide::kHost) {
    const TensorId plain = find_or_make_host_copy(rewriter, source, {}, side, limit);
    const NodeId encode = copying.add_codec(
        kEncode, plain, Rewriter::Place::right_below(graph.producer(plain)), codec);
    waiting = rewriter.add_result(encode, source, ".code", *encoded_type(codec, graph.type(plain)));
  } else {
    TensorId leaving = source;
    NodeId above = last_leaving(rewriter, maker);
    if (!codec.empty()) {
      above = copying.add_codec(kEncode, source, Rewriter::Place::right_below(above), codec);
      leaving =
          rewriter.add_result(above, source, ".code", *encoded_type(codec, graph.type(source)));
    }
    const NodeId out = copying.add(kSwapOut, leaving, Rewriter::Place::right_below(above));
    rewriter.note_swap_out(maker, out);
    waiting = rewriter.add_result(out, source, ".host", on_host(TensorType(graph.type(leaving))));
  }
  rewriter.note_copy(source, way, waiting);
  return waiting;
}

void bring_back(Rewriter& rewriter, TensorId source, TensorId waiting, const ReaderGroup& group,
                const SwapDecision& decision) {
  const Graph& graph = rewriter.graph();
  const NodeId sender = graph.producer(waiting);
  const NodeId first = first_reader(rewriter, group);
  const NodeId above = rewriter.lines().is_before(group.trigger, sender) ? sender : group.trigger;
  const Copying copying{rewriter, source, scope_of_copy(rewriter, source, group), first};
  const TensorId sent = graph.operands(sender)[0].tensor;  // the source, its code or its host copy
  const Rewriter::Place place = Rewriter::Place::below(above, first);
  const bool decodes = !decision.codec.empty();
  const bool decodes_first = decodes && decision.codec_side == CodecSide::kHost;

  // A copy that the graph had already is one more that the readers wait for.
  for (const NodeId node : {sender, graph.producer(sent)}) {
    for (const NodeId reader : group.readers) {
      if (!rewriter.was_there(node) || rewriter.waits(reader, node)) continue;
      rewriter.note_wait(reader, node, true);
    }
  }
  const NodeId arriving = decodes_first ? copying.add_codec(kDecode, waiting, place, decision.codec)
                                        : copying.add(kSwapIn, waiting, place);
  rewriter.add_control(arriving, group.trigger);
  TensorId back = rewriter.add_result(arriving, sent, ".back", graph.type(sent));
  if (decodes) {
    const Rewriter::Place next = Rewriter::Place::below(arriving, first);
    const NodeId last = decodes_first ? copying.add(kSwapIn, back, next)
                                      : copying.add_codec(kDecode, back, next, decision.codec);
    back = rewriter.add_result(last, source, ".back", graph.type(source));
  }
  move_readers(rewriter, source, back, group, ".back");
}

}  // namespace

Status Swap::check(const Rewriter& rewriter, const SwapDecision& decision) {
  const auto refuse = [&](const Reason& reason) {
    return fail(refused(kName, fmt::format("%{}", rewriter.graph().name(decision.tensor)), reason));
  };
  const auto source = find_source(rewriter, decision.tensor);
  if (!source) return refuse(source.error());
  if (const auto why = objection_to_source(rewriter.graph(), *source, decision.codec)) {
    return refuse(*why);
  }
  Totals growth;
  if (const auto why = find_objection(rewriter, *source, decision.groups, growth)) {
    return refuse(*why);
  }
  if (!decision.codec.empty()) {
    const auto why = find_unserved(rewriter.graph(), *source, decision.groups, decision.codec);
    if (why) return refuse({"R12", *why});
  }
  add_copies(rewriter.graph(), *source, decision, growth);
  if (const auto why = objection_to_growth(rewriter, growth)) return refuse(*why);
  return {};
}

void Swap::apply(Rewriter& rewriter, const SwapDecision& decision) {
  const TensorId source = *find_source(rewriter, decision.tensor);
  const TensorId waiting =
      find_or_make_host_copy(rewriter, source, decision.codec, decision.codec_side,
                             first_reader_of_all(rewriter, decision));
  for (const ReaderGroup& group : decision.groups) {
    bring_back(rewriter, source, waiting, group, decision);
  }
}

std::string Swap::way(std::string_view codec, CodecSide side) {
  if (codec.empty()) return std::string(kSwapOut);
  return fmt::format("{} {}{}", kSwapOut, codec, side == CodecSide::kHost ? " on host" : "");
}

}  // namespace ebb
