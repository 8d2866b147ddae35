#include "ebb/rewrite/rewriter.h"

#include <algorithm>

#include "ebb/base/check.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/graph_check.h"
#include "ebb/graph/verify.h"
#include "ebb/rewrite/codec.h"
#include "ebb/rewrite/delay.h"
#include "ebb/rewrite/move.h"
#include "ebb/rewrite/recompute.h"
#include "ebb/rewrite/split.h"
#include "ebb/rewrite/swap.h"

namespace ebb {
namespace {

#ifdef NDEBUG
constexpr bool kHasAssertions = false;
#else
constexpr bool kHasAssertions = true;
#endif

// The rule of each kind of decision.
struct RuleOf {
  static Swap of(const SwapDecision&) { return {}; }
  static Recompute of(const RecomputeDecision&) { return {}; }
  static Delay of(const DelayDecision&) { return {}; }
  static Move of(const MoveDecision&) { return {}; }
  static Split of(const SplitDecision&) { return {}; }
};

}  // namespace

Rewriter::Rewriter(Graph& graph, const RewriterOptions& options)
    : graph_(graph),
      edit_(graph),
      verify_each_(options.verify_each.value_or(kHasAssertions) || options.after_each != nullptr),
      after_each_(options.after_each),
      lines_(graph.order()),
      updates_(graph),
      totals_(graph),
      precedence_(graph, lines_) {
  find_copies();
}

Status Rewriter::check(const Decision& decision) const {
  return std::visit(
      [&](const auto& each) { return decltype(RuleOf::of(each))::check(*this, each); }, decision);
}

Status Rewriter::apply(const Decision& decision) {
  if (Status applies = check(decision); !applies) return applies;
  const auto first = static_cast<std::uint32_t>(graph_.node_count());
  journal_.push_back({.decision = decision, .added = {}});
  std::visit([&](const auto& each) { decltype(RuleOf::of(each))::apply(*this, each); }, decision);
  journal_.back().added = {first, static_cast<std::uint32_t>(graph_.node_count()) - first};
  if (verify_each_) settle();
  if (after_each_) after_each_(graph_, decision);
  return {};
}

void Rewriter::settle() {
  edit_.set_order(lines_.lines());
  verify_now();
}

void Rewriter::verify_now() const {
  const auto found = find_violations(graph_, 1);
  if (found.empty()) return;
  // The rule that added the node, or the last one when it ran right before.
  const auto added_it = [&](const JournalEntry& entry) {
    return !entry.added.empty() && found[0].node.valid() && entry.added[0] <= found[0].node &&
           found[0].node < *entry.added.end();
  };
  auto entry = std::find_if(journal_.begin(), journal_.end(), added_it);
  if (entry == journal_.end() && verify_each_ && !journal_.empty()) {
    entry = journal_.end() - 1;
  }
  const std::string who = entry == journal_.end()
                              ? fmt::format("one of {} rules", journal_.size())
                              : fmt::format("the rule '{}'", to_text(graph_, entry->decision));
  EBB_CHECK_ON(graph_, false, "{} broke {}: {}", who, found[0].code, found[0].message);
}

NodeId Rewriter::version_maker(TensorId tensor) const {
  const StorageId storage = graph_.storage(tensor);
  const std::uint32_t version = graph_.version(tensor);
  return version == 0 ? graph_.producer(graph_.root(storage))
                      : updates_.updater(storage, version - 1);
}

TensorId Rewriter::find_copy(TensorId source, std::string_view way) const {
  const auto found = copies_.find(source);
  if (found == copies_.end()) return {};
  for (const Copy& copy : found->second) {
    // A copy that was delayed would make its new readers wait too.
    if (copy.way == way && graph_.controls(graph_.producer(copy.tensor)).empty()) {
      return copy.tensor;
    }
  }
  return {};
}

NodeId Rewriter::last_swap_out(NodeId maker) const {
  const auto found = swap_outs_.find(maker);
  return found == swap_outs_.end() ? NodeId() : found->second;
}

void Rewriter::move_line_after(NodeId where, NodeId line) {
  lines_.move_after(where, line);
  // It may have been moved between a maker and its swap-outs.
  if (!swap_outs_.empty()) swap_outs_ = {};
}

void Rewriter::note_copy(TensorId source, std::string_view way, TensorId copy) {
  copies_[source].push_back({std::string(way), copy});
}

// Swap-outs that are there already serve new swap-ins, if they wait for nobody but the maker of
// what they copy, and nobody touches the copy. So do encoded ones.
void Rewriter::find_copies() {
  const auto serves = [&](NodeId node) {
    const bool encodes = graph_.op(node) == kEncode;
    if (!graph_.controls(node).empty() || updater(graph_.results(node)[0]).valid()) return false;
    if (graph_.effect(node) != Effect::kPure) return false;
    if (graph_.attributes(node).size() != (encodes ? 1 : 0)) return false;
    if (!encodes) return true;
    const auto code =
        encoded_type(codec_of(graph_, node), graph_.type(graph_.operands(node)[0].tensor));
    return code && *code == graph_.type(graph_.results(node)[0]);
  };
  for (const NodeId node : graph_.order()) {
    const bool on_host = graph_.op(node) == kEncode && !codec_of(graph_, node).empty() &&
                         graph_.type(graph_.results(node)[0]).residence == Residence::kHost;
    if ((graph_.op(node) != kSwapOut && !on_host) || !serves(node)) continue;
    TensorId source = graph_.operands(node)[0].tensor;
    std::string_view codec;
    if (const NodeId inner = graph_.producer(source);
        graph_.op(inner) == (on_host ? kSwapOut : kEncode)) {
      codec = codec_of(graph_, on_host ? node : inner);
      if (codec.empty() || !serves(inner)) continue;
      source = graph_.operands(inner)[0].tensor;
    } else if (on_host) {
      continue;
    }
    const std::string way = Swap::way(codec, on_host ? CodecSide::kHost : CodecSide::kDevice);
    const bool same_scope = graph_.scope(node) == graph_.scope(graph_.producer(source));
    if (same_scope && !find_copy(source, way).valid()) {
      note_copy(source, way, graph_.results(node)[0]);
    }
  }
}

NodeId Rewriter::add_op(std::string_view op, std::span<const Operand> operands,
                        const Place& place) {
  const NodeId node = edit_.add_node(NodeKind::kOp, op);
  edit_.set_operands(node, operands);
  switch (place.kind) {
    case Place::Kind::kBelow:
      lines_.hang(place.anchor, node, place.limit);
      break;
    case Place::Kind::kRightBelow:
      lines_.hang_first(place.anchor, node);
      break;
    case Place::Kind::kRightAbove:
      lines_.insert_before(place.anchor, node);
      break;
  }
  return node;
}

// With attributes, control edges and clauses of the other.
NodeId Rewriter::add_call(NodeId as, std::span<const Operand> operands, const Place& place) {
  // Copies, because all of these lie in pools that grow.
  const std::string op(graph_.op(as));
  const NodeId node = add_op(op, operands, place);
  const auto attributes = graph_.attributes(as);
  for (const Attribute& each : std::vector(attributes.begin(), attributes.end())) {
    const auto items = graph_.items(each);
    edit_.add_attribute(node, each.key, each.is_list, std::vector(items.begin(), items.end()));
  }
  const auto arguments = graph_.scalar_arguments(as);
  edit_.set_scalar_arguments(node, std::vector(arguments.begin(), arguments.end()));
  const auto controls = graph_.controls(as);
  edit_.set_controls(node, std::vector(controls.begin(), controls.end()));
  if (const auto takes = graph_.takes(as)) edit_.set_takes(node, *takes);
  edit_.set_workspace(node, graph_.workspace(as));
  set_place_of_execution(node, as, graph_.scope(as));
  return node;
}

NodeId Rewriter::add_clone(NodeId original, std::span<const Operand> operands, const Place& place) {
  const NodeId node = add_call(original, operands, place);
  totals_.add_costs(graph_, original);
  const NodeId root = graph_.clone_of(original);
  edit_.set_clone_of(node, root.valid() ? root : original);
  updates_.add(graph_, node);
  return node;
}

NodeId Rewriter::add_part(NodeId whole, std::size_t first_result) {
  const auto operands = graph_.operands(whole);
  const NodeId part =
      add_call(whole, std::vector(operands.begin(), operands.end()), Place::right_above(whole));
  totals_.add_workspace(graph_.workspace(whole));
  if (const auto takes = graph_.takes(whole)) {
    edit_.set_takes(part, *takes - *takes / 2);
    edit_.set_takes(whole, *takes / 2);
  }
  edit_.hand_over_results(whole, first_result, part);
  return part;
}

TensorId Rewriter::add_result(NodeId node, TensorId named_after, std::string_view suffix,
                              const TensorType& type) {
  totals_.add(type);
  const TypeId id = edit_.intern(TensorType(type));
  return edit_.add_result(node, unused_name(named_after, suffix), id);
}

TensorId Rewriter::add_shared_result(NodeId node, TensorId named_after, std::string_view suffix,
                                     TensorId shares, Bytes offset) {
  return edit_.add_shared_result(node, unused_name(named_after, suffix),
                                 graph_.type_id(named_after), shares, offset);
}

void Rewriter::add_attribute(NodeId node, std::string_view key, std::string_view text) {
  const Value value = Text{edit_.intern(text)};
  edit_.add_attribute(node, edit_.intern(key), false, {&value, 1});
}

void Rewriter::set_flags(NodeId node, std::string_view key, std::span<const bool> flags) {
  edit_.set_attribute(node, key, std::vector<Value>(flags.begin(), flags.end()));
}

void Rewriter::add_control(NodeId node, NodeId control) {
  const auto controls = graph_.controls(node);
  if (std::find(controls.begin(), controls.end(), control) != controls.end()) return;
  edit_.add_control(node, control);
}

void Rewriter::set_place_of_execution(NodeId node, NodeId as, ScopeId scope) {
  const std::string device(graph_.device(as));
  edit_.set_device(node, device);
  edit_.set_scope(node, scope);
}

void Rewriter::move_edge(NodeId reader, std::size_t operand, TensorId to) {
  edit_.set_operand(reader, operand, to);
  ++journal_.back().edges_moved;
}

SymbolId Rewriter::unused_name(TensorId named_after, std::string_view suffix) {
  const std::string stem = fmt::format("{}{}", graph_.name(named_after), suffix);
  const SymbolId plain = edit_.intern(stem);
  if (!edit_.is_taken(plain)) return plain;
  std::uint32_t& number = last_number_.try_emplace(plain, 1).first->second;
  while (true) {
    const SymbolId numbered = edit_.intern(fmt::format("{}.{}", stem, ++number));
    if (!edit_.is_taken(numbered)) return numbered;
  }
}

}  // namespace ebb
