// Codecs: smaller forms in which a tensor may cross the link and wait on the host (the paper's
// equations 3 and 4: id = decode ∘ encode).
//
// A codec is a row of a table. Its encoded type depends on the type only, so that memory can be
// planned before anything runs. Nothing is encoded unless a decision names a codec, and says
// whether it runs on the device or on the host.
//
// Some codecs keep no more than what certain readers look at, as the sign is all that the
// derivative of a ReLU asks for. Those serve these readers, bit for bit, and nobody else.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "ebb/graph/graph.h"
#include "ebb/rewrite/decision.h"

namespace ebb {

// An operand at which a codec's result does what the tensor itself would do.
struct CodecReader {
  std::string_view op;              // without overload
  std::size_t operand = 0;          // counted from 0
  std::string_view zero_attribute;  // that must be the number 0; empty: there is none
};

struct Codec {
  std::string_view name;
  std::span<const DType> takes;
  bool is_lossless = false;  // for those it serves
  // Of a type that has all its elements side by side.
  TensorType (*encoded)(const TensorType&) = nullptr;
  std::span<const CodecReader> readers;  // whom it serves; empty: everybody
};

std::span<const Codec> codecs();
const Codec* find_codec(std::string_view name);  // null when there is none

// The attribute that names the codec of ebb::encode and ebb::decode.
inline constexpr std::string_view kCodecAttribute = "codec";
// Its text; empty when the node has none, or is no one-to-one operation.
std::string_view codec_of(const Graph& graph, NodeId node);

// What becomes of a tensor of this type, or why the codec does not take it.
tl::expected<TensorType, std::string> encoded_type(std::string_view codec, const TensorType& type);

// Whether the node may read at this operand what the codec gives back.
bool serves(const Codec& codec, const Graph& graph, NodeId reader, std::size_t operand);
// Why one of the readers cannot do with what the codec gives back of the source; nothing when all
// can. The codec is one of those there are.
std::optional<std::string> find_unserved(const Graph& graph, TensorId source,
                                         std::span<const ReaderGroup> groups,
                                         std::string_view codec);

}  // namespace ebb
