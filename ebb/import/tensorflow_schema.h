// Which messages TensorFlow's graph files are made of, and which fields these have: data, from
// which text is read (import/textproto.h) and written (export/textproto.h) and files are told apart
// (import/tensorflow_file.h). The tables come from TensorFlow's own descriptors by way of
// scripts/list-tensorflow-messages and hold all messages that a SavedModel can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ebb {

enum class ProtoKind : std::uint8_t {
  kDouble,
  kFloat,
  kInt32,
  kInt64,
  kUInt32,
  kUInt64,
  kSInt64,
  kFixed64,
  kBool,
  kString,
  kBytes,
  kEnum,
  kMessage,
};

enum class ProtoLabel : std::uint8_t {
  kImplicit,  // at most once; 0, false and "" are the same as nothing
  kExplicit,  // at most once
  kRepeated,
  kPacked,  // repeated numbers, in one run of bytes without tags
  kMap,     // repeated entries, messages of `key` and `value`; of equal keys the last counts
};

struct ProtoField {
  std::uint32_t number = 0;
  std::string_view name;
  ProtoKind kind = ProtoKind::kInt32;
  ProtoLabel label = ProtoLabel::kImplicit;
  std::uint8_t type = 0;   // of proto_message or proto_enum, where it holds one
  std::uint8_t oneof = 0;  // 1, 2, ...: at most one field of this number is there; 0: in none

  [[nodiscard]] bool is_repeated() const { return label >= ProtoLabel::kRepeated; }
};

inline constexpr std::size_t kMostProtoFields = 64;  // of a message, so that sets of them are words
inline constexpr std::size_t kMostProtoOneofs = 3;

struct ProtoMessage {
  std::string_view name;               // "tensorflow.NodeDef"
  std::span<const ProtoField> fields;  // by number
  bool is_map_entry = false;

  // Null when there is none.
  [[nodiscard]] const ProtoField* find(std::string_view field_name) const;
  [[nodiscard]] const ProtoField* find(std::uint32_t number) const;
  [[nodiscard]] std::size_t index_of(const ProtoField& field) const {
    return static_cast<std::size_t>(&field - fields.data());
  }
};

struct ProtoEnumValue {
  std::int32_t number = 0;
  std::string_view name;
};

struct ProtoEnum {
  std::string_view name;
  std::span<const ProtoEnumValue> values;

  [[nodiscard]] const ProtoEnumValue* find(std::string_view value_name) const;
  [[nodiscard]] const ProtoEnumValue* find(std::int32_t number) const;
};

// What a field of this kind holds.
const ProtoMessage& held_message(const ProtoField& field);
const ProtoEnum& held_enum(const ProtoField& field);

// The wire type of one value: 0 varint, 1 eight bytes, 2 a length and bytes, 5 four bytes.
std::uint32_t wire_type(ProtoKind kind);

// The TensorFlow whose messages these are: "2.21.0".
std::string_view tensorflow_schema_version();

// The messages that files hold.
enum class TensorFlowKind : std::uint8_t { kGraphDef, kMetaGraphDef, kSavedModel };
inline constexpr TensorFlowKind kTensorFlowKinds[] = {
    TensorFlowKind::kGraphDef, TensorFlowKind::kMetaGraphDef, TensorFlowKind::kSavedModel};

const ProtoMessage& root_message(TensorFlowKind kind);
std::string_view to_text(TensorFlowKind kind);  // "GraphDef"

// protobuf's own limits: nobody else reads what goes beyond.
inline constexpr std::size_t kLargestProto = 0x7fffffff;  // bytes
inline constexpr int kDeepestProto = 100;                 // messages in each other

}  // namespace ebb
