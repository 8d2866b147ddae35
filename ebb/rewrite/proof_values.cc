#include "ebb/rewrite/proof_values.h"

#include "ebb/graph/ebb_ops.h"

namespace ebb {
namespace {

constexpr int kMostWalks = 16;  // over the lines: chains of clones that stand the other way round

}  // namespace

bool lie_alike(const Spot& a, const Spot& b, const TensorType& type) {
  if (a.begins && b.begins) return true;
  if (a.root == b.root) return a.place == b.place;
  const auto is_faithful = [&](const Spot& spot) {
    if (spot.extract.end == Extract::kAll) return true;
    const auto length = extent(type);
    return length && spot.place + length->count <= spot.extract.end;
  };
  return a.extract.storage == b.extract.storage && a.place == b.place && is_faithful(a) &&
         is_faithful(b);
}

bool gives_back(std::string_view codec, const ProofOptions& options) {
  const Codec* known = find_codec(codec);
  return options.allow_lossy || (known != nullptr && known->is_lossless);
}

std::optional<Holding> encoded(const Holding& held, std::string_view codec) {
  if (!held.codec.empty() || held.serving != nullptr) return std::nullopt;
  return Holding{held.tensor, codec, nullptr};
}

std::optional<Holding> decoded(const Holding& held, std::string_view codec,
                               const ProofOptions& options) {
  if (codec.empty() || held.codec != codec || !gives_back(codec, options)) return std::nullopt;
  const Codec* known = find_codec(codec);  // it has encoded something of a type that it takes
  return Holding{held.tensor, {}, known->readers.empty() ? nullptr : known};
}

std::string_view defect_of_copy(const Graph& graph, NodeId copy) {
  const auto operands = graph.operands(copy);
  const auto results = graph.results(copy);
  if (operands.size() != 1 || !operands[0].tensor.valid() || operands[0].access != Access::kRead ||
      operands[0].position != Operand::Position::kAlone || results.size() != 1) {
    return "takes one tensor and makes one";
  }
  if (graph.root(graph.storage(results[0])) != results[0]) return "makes no copy, but a view";
  if (graph.effect(copy) != Effect::kPure) return "has an effect, which a copy has not";
  const auto all = graph.attributes(copy);
  const auto attributes = std::count_if(all.begin(), all.end(), [&](const Attribute& attribute) {
    return !is_note(graph.text(attribute.key));
  });
  if (is_plain_copy(graph.op(copy))) {
    return attributes == 0 ? "" : "has an attribute, which a copy has not";
  }
  return attributes == 1 ? "" : "has one attribute, its codec";
}

bool is_plain_copy(std::string_view op) {
  return op == kSwapOut || op == kSwapIn || op == kSnapshot;
}

bool differ_at_most_in_residence(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.ranked == b.ranked && a.dims == b.dims && a.strides == b.strides;
}

Values::Values(const Graph& original, const ProofOptions& options)
    : graph_(original),
      held_(original.tensor_count()),
      extracts_(original.storage_count()),
      sources_(original.tensor_count()) {
  // A clone may stand before its original.
  for (const TensorId tensor : original.tensors()) held_[tensor.index()].tensor = tensor;
  for (const StorageId storage : original.storages()) extracts_[storage.index()].storage = storage;
  // And what its original reads may be copies and clones of what it reads, made below it.
  for (int walk = 0; walk < kMostWalks; ++walk) {
    has_changed_ = is_in_doubt_ = false;
    for (const NodeId node : original.order()) take(node, options);
    if (!has_changed_ || !is_in_doubt_) break;
  }
}

void Values::set_held(TensorId tensor, const Holding& value) {
  if (held_[tensor.index()] == value) return;
  held_[tensor.index()] = value;
  has_changed_ = true;
}

Spot Values::spot(TensorId tensor) const {
  const StorageId storage = graph_.storage(tensor);
  const Extract& known = extract(storage);
  return {.begins = graph_.root(storage) == tensor,
          .root = graph_.root(storage),
          .extract = known,
          .place = graph_.offset(tensor).count + known.shift};
}

Extract Values::extract_of_copy(TensorId tensor) const {
  const StorageId storage = graph_.storage(tensor);
  const Spot at = spot(tensor);
  // Nobody has written between the elements of what an operation made and nobody updated.
  const bool nothing_between = graph_.origin(storage) == NodeKind::kOp &&
                               graph_.version(tensor) == 0 &&
                               graph_.type_id(tensor) == graph_.type_id(graph_.root(storage));
  if (may_have_gaps(graph_.type(tensor)) && !nothing_between) {
    return {at.extract.storage, at.place, at.place};
  }
  const auto length = extent(graph_.type(tensor));
  return {at.extract.storage, at.place, length ? at.place + length->count : Extract::kAll};
}

void Values::take(NodeId node, const ProofOptions& options) {
  if (const NodeId repeated = graph_.clone_of(node); repeated.valid()) {
    take_clone(node, repeated);
    return;
  }
  const std::string_view op = graph_.op(node);
  if ((!is_plain_copy(op) && op != kEncode && op != kDecode) ||
      !defect_of_copy(graph_, node).empty()) {
    return;
  }
  const TensorId result = graph_.results(node)[0];
  const TensorId source = graph_.operands(node)[0].tensor;
  const std::optional<Holding> value = op == kEncode ? encoded(held(source), codec_of(graph_, node))
                                       : op == kDecode
                                           ? decoded(held(source), codec_of(graph_, node), options)
                                           : held(source);
  if (!value) return;
  const TensorType& type = value->codec.empty() ? graph_.type(value->tensor) : graph_.type(source);
  // An encoding that names no codec, or not one that takes this, has no type to be of.
  const auto expected = op == kEncode ? encoded_type(value->codec, type) : type;
  const auto is_that = [&](const TensorType& made) {
    return differ_at_most_in_residence(made, graph_.type(result));
  };
  if (!expected.map(is_that).value_or(false)) return;
  set_held(result, *value);
  sources_[result.index()] = source;
  extracts_[graph_.storage(result).index()] = extract_of_copy(value->tensor);
}

// That operator, attributes and result types are the original's is an invariant (V21).
void Values::take_clone(NodeId clone, NodeId node) {
  const auto operands = graph_.operands(node);
  const auto operands_now = graph_.operands(clone);
  const auto results = graph_.results(node);
  const auto results_now = graph_.results(clone);
  if (graph_.device(clone) != graph_.device(node)) return;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].tensor.valid()) continue;
    if (held(operands[i].tensor) == held(operands_now[i].tensor)) continue;
    is_in_doubt_ = true;
    return;
  }
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    const TensorType& type = graph_.type(results[i]);
    if (!lie_alike(spot(results[i]), spot(results_now[i]), type)) return;
  }
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    set_held(results_now[i], held(results[i]));
    const StorageId storage_now = graph_.storage(results_now[i]);
    if (graph_.root(storage_now) == results_now[i]) {
      extracts_[storage_now.index()] = extract(graph_.storage(results[i]));
    }
  }
}

bool Values::is_copy_of(TensorId copy, TensorId tensor) const {
  while (copy.valid() && copy != tensor) copy = sources_[copy.index()];
  return copy.valid();
}

}  // namespace ebb
