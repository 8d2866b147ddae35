// Copies: swaps, codecs and snapshots.
#include "ebb/base/check.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/rewrite/proof_nodes.h"

namespace ebb {

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
  const auto refuse = [&](NodeId node, std::string_view why) {
    return differ("S06", node, copy, "'{}' {}: {}", rewritten_.name(copy), why,
                  quoted(rewritten_, copy));
  };
  if (const std::string_view defect = defect_of_copy(rewritten_, copy); !defect.empty()) {
    return refuse(NodeId(), defect);
  }
  const TensorId source = rewritten_.operands(copy)[0].tensor;
  const TensorId result = rewritten_.results(copy)[0];
  Holding held = holding(source);
  const NodeId maker = original_.producer(stands_for_[source.index()]);
  if (is_out_of_reach(source, copy, maker)) {
    return refuse(maker, fmt::format("reads %{} from outside the branch in which that is made",
                                     rewritten_.name(source)));
  }
  // Only on the way back to the device from a codec that ran on the host.
  if (const std::string why = unserved(copy, 0, held); op != kSwapIn && !why.empty()) {
    return refuse(maker, why);
  }
  if (!is_plain_copy(op)) {
    if (auto found = take_codec(copy, source, held)) return found;
  }
  const TensorType& expected =
      held.codec.empty() ? original_.type(held.tensor) : rewritten_.type(source);
  if (op != kEncode && !differ_at_most_in_residence(expected, rewritten_.type(result))) {
    return refuse(maker, fmt::format("makes {} of {}, which it copies",
                                     to_text(rewritten_.type(result)), to_text(expected)));
  }
  if (auto found = check_scope(copy, maker)) return found;
  holdings_[result.index()] = held;
  stands_for_[result.index()] = stands_for_[source.index()];
  extracts_[rewritten_.storage(result).index()] = values_.extract_of_copy(held.tensor);
  return {};
}

// `held` is what the source holds, and becomes what the copy holds.
std::optional<Difference> NodeProver::take_codec(NodeId copy, TensorId source, Holding& held) {
  const auto refuse = [&](std::string_view why) {
    return differ("S06", original_.producer(held.tensor), copy, "'{}' {}: {}",
                  rewritten_.name(copy), why, quoted(rewritten_, copy));
  };
  const std::string_view codec = codec_of(rewritten_, copy);
  if (codec.empty()) return refuse("does not say by which codec, as {codec = \"...\"}");
  const bool encodes = rewritten_.op(copy) == kEncode;
  if (encodes && !held.codec.empty()) {
    return refuse(fmt::format("encodes {}, which is encoded already", described(source)));
  }
  if (!encodes && held.codec != codec) {
    return refuse(
        fmt::format("decodes {}, which is not encoded by '{}'", described(source), codec));
  }
  if (!gives_back(codec, options_)) {
    return refuse(fmt::format(
        "{} {} by '{}', which may not give back every bit, and lossy codecs were not allowed",
        encodes ? "encodes" : "decodes", described(source), codec));
  }
  if (encodes) {
    const TensorType& type = rewritten_.type(rewritten_.results(copy)[0]);
    const auto expected = encoded_type(codec, original_.type(held.tensor));
    if (!expected) {
      return refuse(fmt::format("cannot encode {}: {}", described(source), expected.error()));
    }
    if (!differ_at_most_in_residence(*expected, type)) {
      return refuse(fmt::format("makes {} of {}, which encoded is {}", to_text(type),
                                described(source), to_text(*expected)));
    }
  }
  const auto now = encodes ? encoded(held, codec) : decoded(held, codec, options_);
  EBB_CHECK(now.has_value(), "'{}' was looked at in vain", rewritten_.name(copy));
  held = *now;
  return {};
}

}  // namespace ebb
