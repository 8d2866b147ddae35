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
  const std::int64_t filled = element_count(type);
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

constexpr std::array kF32 = {DType::kF32};
constexpr std::array kBool = {DType::kBool};
constexpr std::array kFloats = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// The derivatives of a ReLU. PyTorch's keeps the gradient unless x <= 0, TensorFlow's where x > 0:
// they differ where x is not a number, so there is a codec for each.
constexpr std::array kTorchRelu = {CodecReader{"aten::threshold_backward", 1, "threshold"}};
constexpr std::array kTensorFlowRelu = {CodecReader{"tf::ReluGrad", 1, ""}};

constexpr std::array kCodecs = {
    Codec{"bf16", kF32, false, as_bf16, {}},
    Codec{"bits", kBool, true, as_bits, {}},
    // A bit an element: whether x <= 0. Comes back as 0 where it is, and 1 where it is not.
    Codec{"nonpositive", kFloats, true, as_bits, kTorchRelu},
    // A bit an element: whether x > 0. Comes back as 1 where it is, and 0 where it is not.
    Codec{"positive", kFloats, true, as_bits, kTensorFlowRelu},
};

// "f16, bf16 or f32".
std::string names_of(std::span<const DType> dtypes) {
  std::string out(name(dtypes[0]));
  for (std::size_t i = 1; i < dtypes.size(); ++i) {
    out += fmt::format("{}{}", i + 1 == dtypes.size() ? " or " : ", ", name(dtypes[i]));
  }
  return out;
}

bool is_zero(const Graph& graph, const Attribute* attribute) {
  if (attribute == nullptr || attribute->is_list) return false;
  const Value& value = graph.items(*attribute)[0];
  const auto* whole = std::get_if<std::int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  return (whole != nullptr && *whole == 0) || (number != nullptr && *number == 0);
}

// "operand 2 of aten::threshold_backward with threshold = 0".
std::string served_by(const Codec& codec) {
  std::string out;
  for (const CodecReader& reader : codec.readers) {
    out += fmt::format("{}operand {} of {}", out.empty() ? "" : " and ", reader.operand + 1,
                       reader.op);
    if (!reader.zero_attribute.empty()) out += fmt::format(" with {} = 0", reader.zero_attribute);
  }
  return out;
}

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
  if (std::find(row->takes.begin(), row->takes.end(), type.dtype) == row->takes.end()) {
    return tl::make_unexpected(
        fmt::format("codec {} takes {}, not {}", codec, names_of(row->takes), name(type.dtype)));
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

bool serves(const Codec& codec, const Graph& graph, NodeId reader, std::size_t operand) {
  if (codec.readers.empty()) return true;
  const std::string_view op = graph.op(reader);
  return std::any_of(codec.readers.begin(), codec.readers.end(), [&](const CodecReader& served) {
    return op.substr(0, op.find('.')) == served.op && operand == served.operand &&
           graph.operands(reader)[operand].position == Operand::Position::kAlone &&
           (served.zero_attribute.empty() ||
            is_zero(graph, graph.find_attribute(reader, served.zero_attribute)));
  });
}

std::optional<std::string> find_unserved(const Graph& graph, TensorId source,
                                         std::span<const ReaderGroup> groups,
                                         std::string_view codec) {
  const Codec& row = *find_codec(codec);
  if (row.readers.empty()) return std::nullopt;
  const StorageId storage = graph.storage(source);
  for (const ReaderGroup& group : groups) {
    for (const NodeId reader : group.readers) {
      const auto operands = graph.operands(reader);
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const TensorId tensor = operands[i].tensor;
        if (!tensor.valid() || graph.storage(tensor) != storage) continue;
        if (tensor == source && serves(row, graph, reader, i)) continue;
        return fmt::format("codec {} serves {} only, and '{}' reads {}%{} as operand {} of {}",
                           codec, served_by(row), graph.name(reader),
                           tensor == source ? "" : "its view ", graph.name(tensor), i + 1,
                           graph.op(reader));
      }
    }
  }
  return std::nullopt;
}

}  // namespace ebb
