#include "ebb/import/graphdef_attributes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "ebb/base/utf8.h"
#include "ebb/import/tensorflow_types.h"

namespace ebb {
namespace {

// The fields of AttrValue; those of AttrValue.ListValue have the same numbers.
constexpr protozero::pbf_tag_type kList = 1;
constexpr protozero::pbf_tag_type kText = 2;
constexpr protozero::pbf_tag_type kInt = 3;
constexpr protozero::pbf_tag_type kFloat = 4;
constexpr protozero::pbf_tag_type kBool = 5;
constexpr protozero::pbf_tag_type kType = 6;
constexpr protozero::pbf_tag_type kShape = 7;
constexpr protozero::pbf_tag_type kTensor = 8;

// A field of ours has its number and its wire type; another of that number is none that we know.
using protozero::pbf_wire_type;
constexpr std::uint32_t field(protozero::pbf_tag_type tag, pbf_wire_type type) {
  return protozero::tag_and_type(tag, type);
}
constexpr std::uint32_t kListField = field(kList, pbf_wire_type::length_delimited);
constexpr std::uint32_t kTextField = field(kText, pbf_wire_type::length_delimited);
constexpr std::uint32_t kIntField = field(kInt, pbf_wire_type::varint);
constexpr std::uint32_t kFloatField = field(kFloat, pbf_wire_type::fixed32);
constexpr std::uint32_t kBoolField = field(kBool, pbf_wire_type::varint);
constexpr std::uint32_t kTypeField = field(kType, pbf_wire_type::varint);
constexpr std::uint32_t kPackedTypes = field(kType, pbf_wire_type::length_delimited);
constexpr std::uint32_t kShapeField = field(kShape, pbf_wire_type::length_delimited);

std::string_view view_of(protozero::data_view data) { return {data.data(), data.size()}; }

protozero::pbf_reader reader_of(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

std::optional<Value> type_value(std::int32_t number) {
  const DType dtype = dtype_of_tensorflow(number);
  return tensorflow_type_of(dtype) == number ? std::optional<Value>(dtype) : std::nullopt;
}

// One value of a kind that we have; nothing for others.
std::optional<Value> read_one(GraphEdit& edit, protozero::pbf_reader& reader) {
  switch (reader.tag_and_type()) {
    case kTextField: {
      const std::string_view text = view_of(reader.get_view());
      if (!is_utf8(text)) return std::nullopt;
      return Text{edit.intern(text)};
    }
    case kIntField:
      return reader.get_int64();
    case kFloatField:
      return static_cast<double>(reader.get_float());
    case kBoolField:
      return reader.get_bool();
    case kTypeField:
      return type_value(reader.get_enum());
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<Value>> read_list(GraphEdit& edit, std::string_view bytes) {
  std::vector<Value> items;
  protozero::pbf_reader reader = reader_of(bytes);
  const auto add_all = [&](const auto& range) {
    for (auto each = range.begin(); each != range.end(); ++each) {
      items.emplace_back(*each);
    }
  };
  while (reader.next()) {
    if (reader.tag_and_type() == kTextField) {
      const auto text = read_one(edit, reader);
      if (!text) return std::nullopt;
      items.push_back(*text);
      continue;
    }
    if (reader.wire_type() != pbf_wire_type::length_delimited) return std::nullopt;
    switch (reader.tag()) {
      case kInt:
        add_all(reader.get_packed_int64());
        break;
      case kFloat:
        for (const float each : reader.get_packed_float()) items.emplace_back(double{each});
        break;
      case kBool:
        for (const auto each : reader.get_packed_bool()) items.emplace_back(each != 0);
        break;
      case kType:
        for (const std::int32_t each : reader.get_packed_enum()) {
          const auto type = type_value(each);
          if (!type) return std::nullopt;
          items.push_back(*type);
        }
        break;
      default:
        return std::nullopt;
    }
  }
  return items;
}

// The kind of a value as the number of its field; 0 when there is none for it.
protozero::pbf_tag_type field_of(const Value& value) {
  if (std::holds_alternative<Text>(value)) return kText;
  if (std::holds_alternative<std::int64_t>(value)) return kInt;
  if (std::holds_alternative<double>(value)) return kFloat;
  if (std::holds_alternative<bool>(value)) return kBool;
  if (std::holds_alternative<DType>(value)) return kType;
  return 0;
}

int type_number(const Value& value) {
  return tensorflow_type_of(std::get<DType>(value)).value_or(0);
}

template <class As, class Field, class Convert>
void write_packed(protozero::pbf_writer& list, protozero::pbf_tag_type tag,
                  std::span<const Value> items, Convert convert) {
  Field field(list, tag);
  for (const Value& item : items) field.add_element(static_cast<As>(convert(item)));
}

std::string write_list(const Graph& graph, std::span<const Value> items) {
  std::string out;
  protozero::pbf_writer writer(out);
  protozero::pbf_writer list(writer, kList);
  switch (items.empty() ? 0 : field_of(items.front())) {
    case kText:
      for (const Value& item : items) {
        const std::string_view text = graph.text(std::get<Text>(item).id);
        list.add_bytes(kText, text.data(), text.size());
      }
      break;
    case kInt:
      write_packed<std::int64_t, protozero::packed_field_int64>(
          list, kInt, items, [](const Value& item) { return std::get<std::int64_t>(item); });
      break;
    case kFloat:
      write_packed<float, protozero::packed_field_float>(
          list, kFloat, items, [](const Value& item) { return std::get<double>(item); });
      break;
    case kBool:
      write_packed<bool, protozero::packed_field_bool>(
          list, kBool, items, [](const Value& item) { return std::get<bool>(item); });
      break;
    case kType:
      write_packed<std::int32_t, protozero::packed_field_enum>(list, kType, items, type_number);
      break;
    default:
      break;
  }
  return out;
}

std::string write_value(const Graph& graph, const Value& value) {
  std::string out;
  protozero::pbf_writer writer(out);
  switch (field_of(value)) {
    case kText:
      return text_attr_value(graph.text(std::get<Text>(value).id));
    case kInt:
      writer.add_int64(kInt, std::get<std::int64_t>(value));
      break;
    case kFloat:
      writer.add_float(kFloat, static_cast<float>(std::get<double>(value)));
      break;
    case kBool:
      return bool_attr_value(std::get<bool>(value));
    case kType:
      return type_attr_value(type_number(value));
    default:
      if (const auto* blob = std::get_if<Blob>(&value)) out = graph.text(blob->id);
  }
  return out;
}

// The text form has one spelling for all that are not numbers.
bool has_nan(std::span<const Value> items) {
  return std::any_of(items.begin(), items.end(), [](const Value& item) {
    const auto* number = std::get_if<double>(&item);
    return number != nullptr && std::isnan(*number);
  });
}

bool are_of_one_kind(std::span<const Value> items) {
  for (const Value& item : items) {
    if (field_of(item) == 0 || field_of(item) != field_of(items.front())) return false;
  }
  return !items.empty() && !has_nan(items);
}

// The message in a field of this number; of several the last, as in protobuf.
std::optional<std::string_view> find_message(std::string_view bytes, protozero::pbf_tag_type tag) {
  std::optional<std::string_view> found;
  protozero::pbf_reader reader = reader_of(bytes);
  while (reader.next()) {
    if (reader.tag_and_type() == field(tag, pbf_wire_type::length_delimited)) {
      found = view_of(reader.get_view());
    } else {
      reader.skip();
    }
  }
  return found;
}

std::int64_t read_dimension(std::string_view bytes) {
  std::int64_t size = 0;
  protozero::pbf_reader reader = reader_of(bytes);
  while (reader.next()) {
    if (reader.tag_and_type() == field(1, pbf_wire_type::varint)) {
      size = reader.get_int64();
    } else {
      reader.skip();
    }
  }
  return size < 0 ? -1 : size;
}

}  // namespace

namespace {

// The attribute's values, where they are of kinds that we have and give the same bytes again.
struct Values {
  bool is_list = false;
  std::vector<Value> items;
};
std::optional<Values> read_values(GraphEdit& edit, const Graph& graph,
                                  std::string_view attr_value) {
  try {
    protozero::pbf_reader reader = reader_of(attr_value);
    if (!reader.next()) return std::nullopt;
    if (reader.tag_and_type() == kListField) {
      auto items = read_list(edit, view_of(reader.get_view()));
      if (items && are_of_one_kind(*items) && write_list(graph, *items) == attr_value) {
        return Values{.is_list = true, .items = *std::move(items)};
      }
    } else if (const auto value = read_one(edit, reader)) {
      const std::span<const Value> item(&*value, 1);
      if (!has_nan(item) && write_value(graph, *value) == attr_value) {
        return Values{.is_list = false, .items = {*value}};
      }
    }
    return std::nullopt;
  } catch (const protozero::exception&) {
    return std::nullopt;  // not ours to judge: nobody may ever read it
  }
}

}  // namespace

void add_attr_value(GraphEdit& edit, const Graph& graph, NodeId node, std::string_view key,
                    std::string_view attr_value) {
  const SymbolId symbol = edit.intern(key);
  if (const auto values = read_values(edit, graph, attr_value)) {
    edit.add_attribute(node, symbol, values->is_list, values->items);
    return;
  }
  const Value opaque = Blob{edit.intern(attr_value)};
  edit.add_attribute(node, symbol, false, std::span(&opaque, 1));
}

std::string attr_value_of(const Graph& graph, const Attribute& attribute) {
  const auto items = graph.items(attribute);
  return attribute.is_list ? write_list(graph, items) : write_value(graph, items.front());
}

std::string text_attr_value(std::string_view text) {
  std::string out;
  protozero::pbf_writer(out).add_bytes(kText, text.data(), text.size());
  return out;
}

std::string bool_attr_value(bool value) {
  std::string out;
  protozero::pbf_writer(out).add_bool(kBool, value);
  return out;
}

std::string type_attr_value(int tensorflow_type) {
  std::string out;
  protozero::pbf_writer(out).add_enum(kType, tensorflow_type);
  return out;
}

std::string shapes_attr_value(const TensorType& type) {
  // Messages one in the other would not be written where they are empty, as a scalar's shape is.
  std::string shape;
  protozero::pbf_writer writer(shape);
  if (!type.ranked) writer.add_bool(3, true);
  for (const std::int64_t size : type.dims) {
    std::string dim;
    if (size != 0) protozero::pbf_writer(dim).add_int64(1, size);
    writer.add_message(2, dim);
  }
  std::string list;
  protozero::pbf_writer(list).add_message(kShape, shape);
  std::string out;
  protozero::pbf_writer(out).add_message(kList, list);
  return out;
}

std::optional<std::int64_t> int_of_attr_value(std::string_view attr_value) {
  std::optional<std::int64_t> number;
  protozero::pbf_reader reader = reader_of(attr_value);
  while (reader.next()) {
    if (reader.tag_and_type() == kIntField || reader.tag_and_type() == kTypeField) {
      number = reader.get_int64();
    } else {
      reader.skip();
    }
  }
  return number;
}

std::optional<std::string_view> text_of_attr_value(std::string_view attr_value) {
  return find_message(attr_value, kText);
}

bool has_list(std::string_view attr_value) { return find_message(attr_value, kList).has_value(); }

std::vector<int> types_of_attr_value(std::string_view attr_value) {
  std::vector<int> types;
  const auto list = find_message(attr_value, kList);
  if (!list) return types;
  protozero::pbf_reader reader = reader_of(*list);
  while (reader.next()) {
    if (reader.tag_and_type() == kPackedTypes) {
      for (const std::int32_t each : reader.get_packed_enum()) types.push_back(each);
    } else if (reader.tag_and_type() == kTypeField) {
      types.push_back(reader.get_enum());
    } else {
      reader.skip();
    }
  }
  return types;
}

TensorFlowShape read_shape(std::string_view tensor_shape_proto) {
  constexpr std::uint32_t kDimension = field(2, pbf_wire_type::length_delimited);
  constexpr std::uint32_t kUnknownRank = field(3, pbf_wire_type::varint);
  std::vector<std::int64_t> dims;
  bool is_ranked = true;
  protozero::pbf_reader reader = reader_of(tensor_shape_proto);
  while (reader.next()) {
    if (reader.tag_and_type() == kUnknownRank) {
      is_ranked = !reader.get_bool();
    } else if (reader.tag_and_type() == kDimension) {
      dims.push_back(read_dimension(view_of(reader.get_view())));
    } else {
      reader.skip();
    }
  }
  return is_ranked ? TensorFlowShape(std::move(dims)) : std::nullopt;
}

std::optional<TensorFlowShape> shape_of_attr_value(std::string_view attr_value) {
  const auto shape = find_message(attr_value, kShape);
  if (!shape) return std::nullopt;
  return read_shape(*shape);
}

std::vector<TensorFlowShape> shapes_of_attr_value(std::string_view attr_value) {
  std::vector<TensorFlowShape> shapes;
  const auto list = find_message(attr_value, kList);
  if (!list) return shapes;
  protozero::pbf_reader reader = reader_of(*list);
  while (reader.next()) {
    if (reader.tag_and_type() == kShapeField) {
      shapes.push_back(read_shape(view_of(reader.get_view())));
    } else {
      reader.skip();
    }
  }
  return shapes;
}

std::optional<TensorFlowShape> shape_of_tensor_attr_value(std::string_view attr_value) {
  const auto tensor = find_message(attr_value, kTensor);
  if (!tensor) return std::nullopt;
  constexpr protozero::pbf_tag_type kTensorShape = 2;
  const auto shape = find_message(*tensor, kTensorShape);
  if (!shape) return TensorFlowShape(std::vector<std::int64_t>());
  return read_shape(*shape);
}

namespace {

constexpr int kInt32 = 3;
constexpr int kInt64 = 9;

// What stands in a TensorProto's own fields, or in the bytes of its content.
std::vector<std::int64_t> written_ints(std::string_view tensor, int type, std::size_t most) {
  constexpr protozero::pbf_tag_type kContent = 4;
  const protozero::pbf_tag_type tag = type == kInt32 ? 7 : 10;
  std::vector<std::int64_t> ints;
  protozero::pbf_reader reader = reader_of(tensor);
  while (reader.next()) {
    if (reader.tag_and_type() == field(tag, pbf_wire_type::length_delimited)) {
      for (const std::int64_t each : reader.get_packed_int64()) {  // an int32 is written as one
        if (ints.size() <= most) ints.push_back(each);
      }
    } else if (reader.tag_and_type() == field(tag, pbf_wire_type::varint)) {
      const std::int64_t each = reader.get_int64();
      if (ints.size() <= most) ints.push_back(each);
    } else if (reader.tag_and_type() == field(kContent, pbf_wire_type::length_delimited)) {
      const std::string_view bytes = view_of(reader.get_view());
      const std::size_t width = type == kInt32 ? sizeof(std::int32_t) : sizeof(std::int64_t);
      for (std::size_t at = 0; at + width <= bytes.size() && ints.size() <= most; at += width) {
        std::int64_t wide = 0;
        std::int32_t narrow = 0;
        std::memcpy(type == kInt32 ? static_cast<void*>(&narrow) : &wide, &bytes[at], width);
        ints.push_back(type == kInt32 ? narrow : wide);
      }
    } else {
      reader.skip();
    }
  }
  return ints;
}

}  // namespace

std::optional<std::vector<std::int64_t>> ints_of_tensor_attr_value(std::string_view attr_value,
                                                                   std::size_t most) {
  try {
    const auto tensor = find_message(attr_value, kTensor);
    const auto shape = shape_of_tensor_attr_value(attr_value);
    if (!tensor || !shape || !*shape) return std::nullopt;
    int type = 0;
    protozero::pbf_reader reader = reader_of(*tensor);
    while (reader.next()) {
      if (reader.tag_and_type() == field(1, pbf_wire_type::varint)) {
        type = reader.get_enum();
      } else {
        reader.skip();
      }
    }
    if (type != kInt32 && type != kInt64) return std::nullopt;
    std::size_t count = 1;
    for (const std::int64_t size : **shape) {
      if (size < 0 || static_cast<std::size_t>(size) > most) return std::nullopt;
      count *= static_cast<std::size_t>(size);
      if (count > most) return std::nullopt;
    }
    auto ints = written_ints(*tensor, type, most);
    if (ints.size() > count) return std::nullopt;
    // Behind the last that is written all are like that, or 0 where none is.
    ints.resize(count, ints.empty() ? 0 : ints.back());
    return ints;
  } catch (const protozero::exception&) {
    return std::nullopt;  // a graph that was read as text may have any bytes here
  }
}

}  // namespace ebb
