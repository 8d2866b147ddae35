// Copies: swaps, codecs and snapshots.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ebb/graph/ebb_ops.h"
#include "ebb/rewrite/proof_nodes.h"

namespace ebb {
namespace {

bool differ_at_most_in_residence(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.ranked == b.ranked && a.dims == b.dims && a.strides == b.strides;
}

// Whether every byte from the first element to the last belongs to an element.
bool is_dense(const TensorType& type) {
  if (type.strides.empty()) return true;
  std::vector<std::size_t> axes(type.dims.size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  std::sort(axes.begin(), axes.end(),
            [&](std::size_t a, std::size_t b) { return type.strides[a] < type.strides[b]; });
  std::int64_t reach = 1;  // elements without a gap
  for (const std::size_t axis : axes) {
    const std::int64_t size = type.dims[axis];
    if (size == TensorType::kUnknownDim) return false;
    if (size == 0) return true;
    if (size > 1 && type.strides[axis] > reach) return false;
    reach += (size - 1) * type.strides[axis];
  }
  return true;
}

bool is_codec(std::string_view op) { return op == kEncode || op == kDecode; }

}  // namespace

std::optional<Difference> NodeProver::take_copy(NodeId copy) {
  const std::string_view op = rewritten_.op(copy);
  std::size_t* count = op == kSwapOut    ? &proof_.swap_outs
                       : op == kSwapIn   ? &proof_.swap_ins
                       : op == kEncode   ? &proof_.encodes
                       : op == kDecode   ? &proof_.decodes
                       : op == kSnapshot ? &proof_.snapshots
                                         : nullptr;
  if (count == nullptr) {
    return differ("S02", NodeId(), copy,
                  "the original has no '{}', and it is no copy and no clone of what it has: {}",
                  rewritten_.name(copy), quoted(rewritten_, copy));
  }
  ++*count;
  if (const std::string defect = copy_defect(copy); !defect.empty()) {
    return differ("S06", NodeId(), copy, "'{}' {}: {}", rewritten_.name(copy), defect,
                  quoted(rewritten_, copy));
  }
  const TensorId source = rewritten_.operands(copy)[0].tensor;
  const TensorId result = rewritten_.results(copy)[0];
  const NodeId copied = original_.producer(holding(source).tensor);
  // A snapshot is for readers of the very tensor.
  Holding held = op == kSnapshot ? holding(source) : looked_through(holding(source));
  const NodeId maker = original_.producer(held.tensor);
  // Only on the way back to the device from a codec that ran on the host.
  const std::string why =
      op == kSwapIn ? std::string() : unserved(copy, rewritten_.operands(copy)[0]);
  if (!why.empty()) {
    return differ("S06", maker, copy, "'{}' {}: {}", rewritten_.name(copy), why,
                  quoted(rewritten_, copy));
  }
  if (is_codec(op)) {
    if (auto found = take_codec(copy, source, held)) return found;
  }
  const TensorType& expected =
      held.codec.valid() ? rewritten_.type(source) : original_.type(held.tensor);
  if (op != kEncode && !differ_at_most_in_residence(expected, rewritten_.type(result))) {
    return differ("S06", maker, copy, "'{}' makes {} of {}, which it copies: {}",
                  rewritten_.name(copy), to_text(rewritten_.type(result)), to_text(expected),
                  quoted(rewritten_, copy));
  }
  for (const NodeId node : {maker, copied}) {
    if (auto found = check_scope(copy, node)) return found;
  }
  holdings_[result.index()] = held;
  if (!held.codec.valid()) {
    extracts_[rewritten_.storage(result).index()] = extract_of(held.tensor);
  }
  return {};
}

// What is wrong with it whatever it copies; empty: nothing.
std::string NodeProver::copy_defect(NodeId copy) const {
  const auto operands = rewritten_.operands(copy);
  const auto results = rewritten_.results(copy);
  if (operands.size() != 1 || !operands[0].tensor.valid() || operands[0].access != Access::kRead ||
      operands[0].position != Operand::Position::kAlone || results.size() != 1) {
    return "takes one tensor and makes one";
  }
  const TensorId result = results[0];
  if (rewritten_.root(rewritten_.storage(result)) != result) return "makes no copy, but a view";
  if (rewritten_.effect(copy) != Effect::kPure) return "has an effect, which a copy has not";
  const bool with_codec = is_codec(rewritten_.op(copy));
  if (rewritten_.attributes(copy).size() != (with_codec ? 1U : 0U)) {
    return with_codec ? "has one attribute, its codec" : "has an attribute, which a copy has not";
  }
  const NodeId maker = rewritten_.producer(operands[0].tensor);
  const ScopeId made_in = matching_.origin(rewritten_.scope(maker));
  const TensorId held = holding(operands[0].tensor).tensor;
  if (matching_.is_added(maker) && made_in != original_.scope(original_.producer(held)) &&
      !runs_inside(original_, matching_.origin(rewritten_.scope(copy)), made_in)) {
    return fmt::format("reads %{} from outside the branch in which that is made",
                       rewritten_.name(operands[0].tensor));
  }
  return {};
}

// Rewriting uses the copies on the host that it finds, and those may be the original's own.
NodeProver::Holding NodeProver::looked_through(Holding held) const {
  while (true) {
    const NodeId maker = original_.producer(held.tensor);
    const std::string_view op = original_.op(maker);
    if (original_.effect(maker) != Effect::kPure) return held;
    if (op == kEncode && !held.codec.valid() && may_decode(codec_of(original_, maker))) {
      const NodeId now = matching_.counterpart(maker);
      const Attribute& codec = *rewritten_.find_attribute(now, kCodecAttribute);
      held.codec = std::get<Text>(rewritten_.items(codec)[0]).id;
    } else if (op != kSwapOut) {
      return held;
    }
    held.tensor = original_.operands(maker)[0].tensor;
  }
}

// Whether what the codec gives back may stand for what was encoded.
bool NodeProver::may_decode(std::string_view codec) const {
  const auto& lossless = options_.lossless_codecs;
  return !codec.empty() && (options_.allow_lossy ||
                            std::find(lossless.begin(), lossless.end(), codec) != lossless.end());
}

// `held` is what the source holds, and becomes what the copy holds.
std::optional<Difference> NodeProver::take_codec(NodeId copy, TensorId source, Holding& held) {
  const NodeId maker = original_.producer(held.tensor);
  const std::string_view name = rewritten_.name(copy);
  const Attribute* attribute = rewritten_.find_attribute(copy, "codec");
  const Text* codec = attribute == nullptr || attribute->is_list
                          ? nullptr
                          : std::get_if<Text>(rewritten_.items(*attribute).data());
  if (codec == nullptr) {
    return differ("S06", maker, copy,
                  "'{}' does not say by which codec, as {{codec = \"...\"}}: {}", name,
                  quoted(rewritten_, copy));
  }
  if (rewritten_.op(copy) == kEncode) {
    const std::string_view text = rewritten_.text(codec->id);
    if (held.codec.valid()) {
      return differ("S06", maker, copy, "'{}' encodes {}, which is encoded already: {}", name,
                    described(source), quoted(rewritten_, copy));
    }
    if (!may_decode(text)) {
      return differ("S06", maker, copy,
                    "'{}' encodes {} by '{}', which may not give back every bit, and lossy codecs "
                    "were not allowed: {}",
                    name, described(source), text, quoted(rewritten_, copy));
    }
    held.codec = codec->id;
    return {};
  }
  if (held.codec != codec->id) {
    return differ("S06", maker, copy, "'{}' decodes {}, which is not encoded by '{}': {}", name,
                  described(source), rewritten_.text(codec->id), quoted(rewritten_, copy));
  }
  held.codec = SymbolId();
  const Codec* known = find_codec(rewritten_.text(codec->id));
  if (known != nullptr && !known->readers.empty()) held.serving = known;
  return {};
}

// What a copy of this tensor has of its storage. A copy has the elements, not the gaps between
// them.
NodeProver::Extract NodeProver::extract_of(TensorId of_original) const {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  const StorageId storage = original_.storage(of_original);
  const std::int64_t begin = original_.offset(of_original).count;
  const bool dense = is_dense(original_.type(of_original));
  const bool whole =
      begin == 0 && original_.type_id(of_original) == original_.type_id(original_.root(storage));
  // Nobody has written between the elements of what an operation made and nobody updated.
  const bool nothing_between =
      original_.origin(storage) == NodeKind::kOp && original_.version(of_original) == 0;
  if (whole && (dense || nothing_between)) return {storage, begin, 0, kAll};
  const auto length = extent(original_.type(of_original));
  return {storage, begin, begin, dense && length ? begin + length->count : begin};
}

}  // namespace ebb
