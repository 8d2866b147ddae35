// Codecs: smaller forms in which a tensor may cross the link and wait on the host (the paper's
// equations 3 and 4: id = decode ∘ encode).
//
// A codec is a row of a table. Its encoded type depends on the type only, so that memory can be
// planned before anything runs. Encoding and decoding run on the device and save the link as well
// as the host's memory. Nothing is encoded unless a decision names a codec.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "ebb/graph/graph.h"

namespace ebb {

struct Codec {
  std::string_view name;
  DType takes;
  bool is_lossless = false;
  // Of a type that has all its elements side by side.
  TensorType (*encoded)(const TensorType&) = nullptr;
};

std::span<const Codec> codecs();
const Codec* find_codec(std::string_view name);  // null when there is none

// The attribute that names the codec of ebb::encode and ebb::decode.
inline constexpr std::string_view kCodecAttribute = "codec";
// Its text; empty when the node has none, or is no one-to-one operation.
std::string_view codec_of(const Graph& graph, NodeId node);

// What becomes of a tensor of this type, or why the codec does not take it.
tl::expected<TensorType, std::string> encoded_type(std::string_view codec, const TensorType& type);

}  // namespace ebb
