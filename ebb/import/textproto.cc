#include "ebb/import/textproto.h"

#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/base/utf8.h"
#include "ebb/import/proto_builder.h"
#include "ebb/import/textproto_cursor.h"

namespace ebb {
namespace {

std::string unknown_field(std::string_view name, std::span<const ProtoMessage* const> messages,
                          std::string_view owner) {
  NearestWord nearest(name);
  for (const ProtoMessage* message : messages) {
    for (const ProtoField& field : message->fields) nearest.offer(field.name);
  }
  return fmt::format("no field '{}' in {}{}", name.substr(0, 100), owner, nearest.hint());
}

// As a cast does, and as protobuf rounds: to the nearest float, beyond the last one to infinity.
float to_float(double value) {
  constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());
  if (std::abs(value) > kMost && std::isfinite(value)) {
    constexpr double kHalfStep = 0x1p103;  // half of the distance to the float after the last
    const float most = std::abs(value) < kMost + kHalfStep ? std::numeric_limits<float>::max()
                                                           : std::numeric_limits<float>::infinity();
    return std::copysign(most, value < 0 ? -1.0F : 1.0F);
  }
  return static_cast<float>(value);
}

class TextProtoReader {
 public:
  explicit TextProtoReader(std::string_view text) : cursor_(text) {
    builder_.bytes().reserve(text.size() / 4);
  }

  Result<std::string> read(const ProtoMessage& root) {
    const ProtoBuilder::Open message = builder_.open_root(root);
    if (!read_fields(message, '\0', 1)) return fail(cursor_.error());
    builder_.close(message);
    return std::move(builder_.bytes());
  }

 private:
  using Open = ProtoBuilder::Open;

  // Up to the closing bracket, which is taken too; to the end of the text for the root.
  bool read_fields(const Open& message, char closing, int depth) {
    std::uint64_t seen = 0;
    while (true) {
      if (cursor_.at_end()) {
        if (closing == '\0') return true;
        return cursor_.refuse(fmt::format("the text ends inside a {}, before its '{}'",
                                          message.message->name, closing));
      }
      if (closing != '\0' && cursor_.take(closing)) return true;
      const ProtoField* field = read_field_name(message);
      if (field == nullptr || !note_field(message, *field, seen)) return false;
      if (!read_values(message, *field, depth)) return false;
      if (!cursor_.take(',')) cursor_.take(';');
    }
  }

  const ProtoField* read_field_name(const Open& message) {
    const std::string_view name = cursor_.name();
    if (name.empty()) {
      if (cursor_.peek() == '[') {
        cursor_.refuse(
            "'[' begins an extension or the content of an Any, whose fields only its author "
            "knows; write an Any as its two fields, type_url and value");
      } else {
        cursor_.refuse(fmt::format("{} where a field of {} should stand", cursor_.found(),
                                   message.message->name));
      }
      return nullptr;
    }
    const ProtoField* field = message.message->find(name);
    if (field == nullptr) {
      const ProtoMessage* const known[] = {message.message};
      cursor_.refuse(unknown_field(name, known, message.message->name));
    }
    return field;
  }

  // Whether it may stand here, beside the fields that were seen.
  bool note_field(const Open& message, const ProtoField& field, std::uint64_t& seen) {
    const std::uint64_t bit = std::uint64_t{1} << message.message->index_of(field);
    if (field.is_repeated()) return true;
    if ((seen & bit) != 0) {
      return cursor_.refuse(fmt::format("{} has a second '{}'", message.message->name, field.name));
    }
    if (field.oneof != 0) {
      for (const ProtoField& other : message.message->fields) {
        const std::uint64_t other_bit = std::uint64_t{1} << message.message->index_of(other);
        if (other.oneof == field.oneof && (seen & other_bit) != 0) {
          return cursor_.refuse(fmt::format("{} has '{}' beside '{}', and can have one of them",
                                            message.message->name, field.name, other.name));
        }
      }
    }
    seen |= bit;
    return true;
  }

  bool read_values(const Open& message, const ProtoField& field, int depth) {
    const bool has_colon = cursor_.take(':');
    if (!has_colon && field.kind != ProtoKind::kMessage) {
      return cursor_.refuse(
          fmt::format("{} where ':' should stand, after '{}'", cursor_.found(), field.name));
    }
    if (cursor_.peek() != '[') return read_value(message, field, depth);
    if (!field.is_repeated()) {
      return cursor_.refuse(
          fmt::format("a list, and {} has one '{}'", message.message->name, field.name));
    }
    cursor_.take('[');
    if (cursor_.take(']')) return true;
    do {
      if (!read_value(message, field, depth)) return false;
    } while (cursor_.take(','));
    return cursor_.take(']') ||
           cursor_.refuse(fmt::format("{} where ',' or ']' should stand", cursor_.found()));
  }

  bool read_value(const Open& message, const ProtoField& field, int depth) {
    switch (field.kind) {
      case ProtoKind::kMessage:
        return read_message(message, field, depth + 1);
      case ProtoKind::kString:
      case ProtoKind::kBytes:
        return read_string(message, field);
      default: {
        std::uint64_t bits = 0;
        if (!read_number(field, bits)) return false;
        builder_.add_number(message, field, bits);
        return true;
      }
    }
  }

  bool read_message(const Open& parent, const ProtoField& field, int depth) {
    const char closing = cursor_.take('{') ? '}' : cursor_.take('<') ? '>' : '\0';
    if (closing == '\0') {
      return cursor_.refuse(
          fmt::format("{} where '{{' should stand, after '{}'", cursor_.found(), field.name));
    }
    if (depth > kDeepestProto) {
      return cursor_.refuse(
          fmt::format("more than {} messages in each other, which protobuf does not read either",
                      kDeepestProto));
    }
    const Open child = builder_.open(parent, field);
    if (!read_fields(child, closing, depth)) return false;
    builder_.close(parent, field, child);
    return true;
  }

  bool read_string(const Open& message, const ProtoField& field) {
    if (!cursor_.string(string_)) return false;
    if (field.kind == ProtoKind::kString && !is_utf8(string_)) {
      return cursor_.refuse(fmt::format("'{}' holds text, and this is not UTF-8", field.name));
    }
    builder_.add_bytes(message, field, string_);
    return true;
  }

  bool read_number(const ProtoField& field, std::uint64_t& bits) {
    using Int32 = std::numeric_limits<std::int32_t>;
    using Int64 = std::numeric_limits<std::int64_t>;
    std::int64_t integer = 0;
    double floating = 0;
    switch (field.kind) {
      case ProtoKind::kInt32:
        if (!cursor_.integer(Int32::min(), Int32::max(), "int32", integer)) return false;
        bits = static_cast<std::uint64_t>(integer);
        return true;
      case ProtoKind::kInt64:
      case ProtoKind::kSInt64:
        if (!cursor_.integer(Int64::min(), Int64::max(), "int64", integer)) return false;
        bits = static_cast<std::uint64_t>(integer);
        return true;
      case ProtoKind::kUInt32:
        return cursor_.unsigned_integer(std::numeric_limits<std::uint32_t>::max(), "uint32", bits);
      case ProtoKind::kUInt64:
      case ProtoKind::kFixed64:
        return cursor_.unsigned_integer(std::numeric_limits<std::uint64_t>::max(), "uint64", bits);
      case ProtoKind::kFloat:
        if (!cursor_.floating(floating)) return false;
        bits = std::bit_cast<std::uint32_t>(to_float(floating));
        return true;
      case ProtoKind::kDouble:
        if (!cursor_.floating(floating)) return false;
        bits = std::bit_cast<std::uint64_t>(floating);
        return true;
      case ProtoKind::kBool:
        return read_bool(bits);
      default:
        return read_enum(field, bits);
    }
  }

  bool read_bool(std::uint64_t& bits) {
    const std::string_view word = cursor_.name();
    if (word.empty()) return cursor_.unsigned_integer(1, "bool", bits);
    bits = word == "true" || word == "True" || word == "t" ? 1 : 0;
    return bits == 1 || word == "false" || word == "False" || word == "f" ||
           cursor_.refuse(fmt::format("'{}' is neither true nor false", word.substr(0, 100)));
  }

  // Numbers without a name are allowed: a newer TensorFlow may have one.
  bool read_enum(const ProtoField& field, std::uint64_t& bits) {
    const ProtoEnum& values = held_enum(field);
    const std::string_view word = cursor_.name();
    if (word.empty()) {
      using Int32 = std::numeric_limits<std::int32_t>;
      std::int64_t number = 0;
      if (!cursor_.integer(Int32::min(), Int32::max(), values.name, number)) return false;
      bits = static_cast<std::uint64_t>(number);
      return true;
    }
    if (const ProtoEnumValue* value = values.find(word)) {
      bits = static_cast<std::uint64_t>(std::int64_t{value->number});
      return true;
    }
    NearestWord nearest(word);
    for (const ProtoEnumValue& value : values.values) nearest.offer(value.name);
    return cursor_.refuse(
        fmt::format("{} has no '{}'{}", values.name, word.substr(0, 100), nearest.hint()));
  }

  TextProtoCursor cursor_;
  ProtoBuilder builder_;
  std::string string_;  // scratch
};

}  // namespace

Result<TensorFlowKind> kind_of_text(std::string_view text) {
  TextProtoCursor cursor(text);
  const std::string_view name = cursor.name();
  if (name.empty()) {
    cursor.refuse(
        fmt::format("{} where the first field of a GraphDef, a MetaGraphDef or a "
                    "SavedModel should stand",
                    cursor.found()));
    return fail(cursor.error());
  }
  for (const TensorFlowKind kind : kTensorFlowKinds) {
    if (root_message(kind).find(name) != nullptr) return kind;
  }
  const ProtoMessage* const roots[] = {&root_message(TensorFlowKind::kGraphDef),
                                       &root_message(TensorFlowKind::kMetaGraphDef),
                                       &root_message(TensorFlowKind::kSavedModel)};
  cursor.refuse(unknown_field(name, roots, "GraphDef, MetaGraphDef and SavedModel"));
  return fail(cursor.error());
}

Result<std::string> graphdef_from_text(std::string_view text) {
  const auto kind = kind_of_text(text);
  if (!kind) return fail(kind.error());
  return graphdef_from_text(text, *kind);
}

Result<std::string> graphdef_from_text(std::string_view text, TensorFlowKind kind) {
  auto bytes = TextProtoReader(text).read(root_message(kind));
  if (bytes && bytes->size() > kLargestProto) {
    return fail(ErrorKind::kBadInput,
                fmt::format("as a binary {} this text would be {} bytes, and protobuf reads none "
                            "of more than 2 GiB",
                            to_text(kind), bytes->size()));
  }
  return bytes;
}

}  // namespace ebb
