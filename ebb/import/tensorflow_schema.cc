#include "ebb/import/tensorflow_schema.h"

#include <algorithm>

#include "ebb/base/check.h"

namespace ebb {
namespace {

#include "ebb/import/tensorflow_messages.inc"

constexpr bool is_well_formed(const ProtoMessage& message) {
  std::uint32_t last = 0;
  for (const ProtoField& field : message.fields) {
    if (field.number <= last || field.oneof > kMostProtoOneofs) return false;
    if (field.kind == ProtoKind::kMessage && field.type >= std::size(kMessages)) return false;
    if (field.kind == ProtoKind::kEnum && field.type >= std::size(kEnums)) return false;
    last = field.number;
  }
  return message.fields.size() <= kMostProtoFields &&
         (!message.is_map_entry || message.fields.size() == 2);
}
static_assert(std::ranges::all_of(kMessages, is_well_formed));

template <class Things, class Key, class Member>
const auto* find_in(const Things& things, const Key& key, Member member) {
  const auto found = std::ranges::find(things, key, member);
  return found == things.end() ? nullptr : &*found;
}

}  // namespace

const ProtoField* ProtoMessage::find(std::string_view field_name) const {
  return find_in(fields, field_name, &ProtoField::name);
}

const ProtoField* ProtoMessage::find(std::uint32_t number) const {
  return find_in(fields, number, &ProtoField::number);
}

const ProtoEnumValue* ProtoEnum::find(std::string_view value_name) const {
  return find_in(values, value_name, &ProtoEnumValue::name);
}

const ProtoEnumValue* ProtoEnum::find(std::int32_t number) const {
  return find_in(values, number, &ProtoEnumValue::number);
}

const ProtoMessage& held_message(const ProtoField& field) {
  EBB_CHECK(field.kind == ProtoKind::kMessage, "field {} holds no message", field.name);
  return kMessages[field.type];
}

const ProtoEnum& held_enum(const ProtoField& field) {
  EBB_CHECK(field.kind == ProtoKind::kEnum, "field {} holds no enum", field.name);
  return kEnums[field.type];
}

std::uint32_t wire_type(ProtoKind kind) {
  switch (kind) {
    case ProtoKind::kDouble:
    case ProtoKind::kFixed64:
      return 1;
    case ProtoKind::kString:
    case ProtoKind::kBytes:
    case ProtoKind::kMessage:
      return 2;
    case ProtoKind::kFloat:
      return 5;
    default:
      return 0;
  }
}

std::string_view tensorflow_schema_version() { return kSchemaVersion; }

const ProtoMessage& root_message(TensorFlowKind kind) {
  switch (kind) {
    case TensorFlowKind::kGraphDef:
      return kMessages[kGraphDef];
    case TensorFlowKind::kMetaGraphDef:
      return kMessages[kMetaGraphDef];
    case TensorFlowKind::kSavedModel:
      break;
  }
  return kMessages[kSavedModel];
}

std::string_view to_text(TensorFlowKind kind) {
  const std::string_view name = root_message(kind).name;
  return name.substr(name.rfind('.') + 1);
}

}  // namespace ebb
