#include "ebb/rewrite/codec.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ebb/base/nearest.h"

namespace ebb {
namespace {

// Of a type whose elements lie side by side; those are as many as fit into its bytes.
std::int64_t element_count(const TensorType& type) {
  return extent(type).value_or(Bytes{}).count / element_size(type.dtype);
}

// Whether the elements fill the bytes that the type spans. Dimensions without strides of their own
// may multiply to any number, so this stops before it is too large.
bool is_dense(const TensorType& type) {
  const auto bytes = extent(type);
  if (!bytes) return false;
  const std::int64_t filled = bytes->count / element_size(type.dtype);
  std::int64_t elements = 1;
  for (const std::int64_t dim : type.dims) {
    if (dim == 0) return true;
    if (elements > filled / dim) return false;
    elements *= dim;
  }
  return elements == filled;
}

// The same layout, with the upper half of each element: sign, exponent and 7 bits of 23.
TensorType as_bf16(const TensorType& type) {
  TensorType encoded = type;
  encoded.dtype = DType::kBF16;
  return encoded;
}

// Eight truth values a byte, in the order in which they lie in memory.
TensorType as_bits(const TensorType& type) {
  TensorType encoded = tensor_type(DType::kU8, {(element_count(type) + 7) / 8});
  encoded.residence = type.residence;
  return encoded;
}

constexpr std::array kCodecs = {
    Codec{"bf16", DType::kF32, false, as_bf16},
    Codec{"bits", DType::kBool, true, as_bits},
};

}  // namespace

std::span<const Codec> codecs() { return kCodecs; }

const Codec* find_codec(std::string_view name) {
  const auto* found = std::find_if(kCodecs.begin(), kCodecs.end(),
                                   [&](const Codec& codec) { return codec.name == name; });
  return found == kCodecs.end() ? nullptr : found;
}

std::string_view codec_of(const Graph& graph, NodeId node) {
  const auto operands = graph.operands(node);
  if (operands.size() != 1 || !operands[0].tensor.valid() || graph.results(node).size() != 1) {
    return {};
  }
  const Attribute* attribute = graph.find_attribute(node, kCodecAttribute);
  if (attribute == nullptr || attribute->is_list) return {};
  const auto* text = std::get_if<Text>(graph.items(*attribute).data());
  return text == nullptr ? std::string_view() : graph.text(text->id);
}

tl::expected<TensorType, std::string> encoded_type(std::string_view codec, const TensorType& type) {
  const Codec* row = find_codec(codec);
  if (row == nullptr) {
    NearestWord nearest(codec);
    std::string all;
    for (const Codec& each : kCodecs) {
      nearest.offer(each.name);
      all += fmt::format("{}{}", all.empty() ? "" : ", ", each.name);
    }
    return tl::make_unexpected(
        nearest.word().empty()
            ? fmt::format("there is no codec '{}'; there are {}", codec, all)
            : fmt::format("there is no codec '{}'; did you mean '{}'?", codec, nearest.word()));
  }
  if (type.dtype != row->takes) {
    return tl::make_unexpected(
        fmt::format("codec {} takes {}, not {}", codec, name(row->takes), name(type.dtype)));
  }
  if (!extent(type)) {
    return tl::make_unexpected(
        fmt::format("codec {} takes tensors of known size, not {}", codec, to_text(type)));
  }
  if (!is_dense(type)) {
    return tl::make_unexpected(
        fmt::format("codec {} takes elements that lie side by side, not {}", codec, to_text(type)));
  }
  return row->encoded(type);
}

}  // namespace ebb
