// Each message is looked through once, which gives its values in the order of the bytes; they are
// sorted by field where they are not, and written. What protobuf does with values that stand
// several times where one may, happens here: the last number or string counts, messages are merged,
// a member of a oneof drives out the others.
#include "ebb/export/textproto.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>

#include "ebb/base/utf8.h"
#include "ebb/export/textproto_values.h"
#include "ebb/import/graphdef_error.h"

namespace ebb {
namespace {

struct Value {
  std::uint32_t field = 0;  // its index in the message
  bool is_run = false;      // `bytes` are packed numbers
  std::uint64_t bits = 0;   // a number, as it stands on the wire
  std::string_view bytes;
};

// The member that a oneof has at the end of a message, and since which value.
struct Choice {
  std::uint32_t field = 0;
  std::size_t since = 0;
  bool is_made = false;
};
using Choices = std::array<Choice, kMostProtoOneofs + 1>;  // by the fields' `oneof`; 0 is not made

// One entry of a map: what counts of it.
struct MapEntry {
  std::uint64_t number = 0;  // the key, one of them
  std::string_view text;
  std::string_view bytes;  // the whole entry
};

std::uint64_t read_number(protozero::pbf_reader& reader, std::uint32_t wire) {
  switch (wire) {
    case 0:
      return reader.get_uint64();
    case 1:
      return reader.get_fixed64();
    default:
      return reader.get_fixed32();
  }
}

// The number as its kind has it: protobuf drops the upper bits of what is too large.
std::uint64_t narrowed(ProtoKind kind, std::uint64_t bits) {
  switch (kind) {
    case ProtoKind::kInt32:
    case ProtoKind::kEnum:
      return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(bits)});
    case ProtoKind::kUInt32:
      return static_cast<std::uint32_t>(bits);
    case ProtoKind::kSInt64:
      return static_cast<std::uint64_t>(protozero::decode_zigzag64(bits));
    case ProtoKind::kBool:
      return bits != 0 ? 1 : 0;
    default:
      return bits;
  }
}

class TextProtoWriter {
 public:
  Result<std::string> write(const ProtoMessage& root, std::string_view bytes) {
    try {
      write_message(root, bytes);
    } catch (const protozero::exception& damage) {
      refuse(fmt::format("the bytes are cut off or no protobuf ({})", damage.what()));
      return refuse_graphdef("G01", std::move(error_));
    }
    if (!error_.empty()) return fail(ErrorKind::kBadInput, std::move(error_));
    return std::move(out_);
  }

 private:
  // Where we are: the field, and which of its values.
  struct Step {
    const ProtoField* field;
    std::size_t index;
  };

  bool refuse(std::string_view what) {
    if (!error_.empty()) return false;
    std::string place;
    for (const Step& step : path_) {
      if (!place.empty()) place += '.';
      place += step.field->name;
      if (step.field->is_repeated()) place += fmt::format("[{}]", step.index);
    }
    error_ = place.empty() ? std::string(what) : fmt::format("{}: {}", place, what);
    return false;
  }

  bool write_message(const ProtoMessage& message, std::string_view bytes) {
    const std::size_t begin = values_.size();
    const bool is_written = collect(message, bytes) && write_fields(message, begin);
    values_.resize(begin);
    return is_written;
  }

  // The message's values go to the end of values_, by field.
  bool collect(const ProtoMessage& message, std::string_view bytes) {
    Choices choices{};
    bool has_driven_out = false;
    const std::size_t begin = values_.size();
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      const auto wire = static_cast<std::uint32_t>(reader.wire_type());
      const ProtoField* field = message.find(reader.tag());
      const bool is_run =
          field != nullptr && wire == 2 && field->is_repeated() && wire_type(field->kind) != 2;
      if (field == nullptr || (!is_run && wire != wire_type(field->kind))) {
        return refuse(fmt::format(
            "field {} has no name in the {} of TensorFlow {}, and a text would lose it: "
            "the file is of a newer TensorFlow, or no {} at all",
            reader.tag(), message.name, tensorflow_schema_version(), message.name));
      }
      Value value;
      value.field = static_cast<std::uint32_t>(message.index_of(*field));
      value.is_run = is_run;
      if (wire == 2) {
        const protozero::data_view view = reader.get_view();
        value.bytes = {view.data(), view.size()};
      } else {
        value.bits = narrowed(field->kind, read_number(reader, wire));
      }
      if (field->oneof != 0) {
        Choice& choice = choices[field->oneof];
        if (!choice.is_made || choice.field != value.field) {
          has_driven_out |= choice.is_made;
          choice = {.field = value.field, .since = values_.size(), .is_made = true};
        }
      }
      values_.push_back(value);
    }
    if (has_driven_out) drop_driven_out(message, begin, choices);
    const auto ours = std::span(values_).subspan(begin);
    if (!std::ranges::is_sorted(ours, {}, &Value::field)) {
      std::ranges::stable_sort(ours, {}, &Value::field);
    }
    return true;
  }

  void drop_driven_out(const ProtoMessage& message, std::size_t begin, const Choices& choices) {
    std::size_t kept = begin;
    for (std::size_t at = begin; at < values_.size(); ++at) {
      const Choice& choice = choices[message.fields[values_[at].field].oneof];
      const bool is_driven_out =
          choice.is_made && (choice.field != values_[at].field || at < choice.since);
      if (!is_driven_out) values_[kept++] = values_[at];
    }
    values_.resize(kept);
  }

  bool write_fields(const ProtoMessage& message, std::size_t begin) {
    const std::size_t end = values_.size();  // what comes after is of messages inside
    for (std::size_t at = begin; at < end;) {
      const ProtoField& field = message.fields[values_[at].field];
      std::size_t group_end = at + 1;
      while (group_end < end && values_[group_end].field == values_[at].field) ++group_end;
      path_.push_back({.field = &field, .index = 0});
      if (!write_field(field, at, group_end)) return false;
      path_.pop_back();
      at = group_end;
    }
    return true;
  }

  bool write_field(const ProtoField& field, std::size_t begin, std::size_t end) {
    if (field.label == ProtoLabel::kMap) return write_map(field, begin, end);
    if (field.is_repeated()) {
      for (std::size_t i = begin; i < end; ++i) {
        if (!write_repeated(field, values_[i])) return false;
      }
      return true;
    }
    if (field.kind == ProtoKind::kMessage && end - begin > 1) {
      std::string merged;
      for (std::size_t i = begin; i < end; ++i) merged += values_[i].bytes;
      return write_submessage(field, merged);
    }
    const Value value = values_[end - 1];
    const bool is_default = value.bits == 0 && value.bytes.empty();
    if (is_default && field.label == ProtoLabel::kImplicit) return true;
    return write_value(field, value);
  }

  bool write_repeated(const ProtoField& field, Value value) {
    if (!value.is_run) {
      const bool is_written = write_value(field, value);
      if (is_written) ++path_.back().index;
      return is_written;
    }
    const char* at = value.bytes.data();
    const char* const end = at + value.bytes.size();
    const std::uint32_t wire = wire_type(field.kind);
    const std::size_t size = wire == 1 ? 8 : 4;
    value.bytes = {};
    while (at < end) {
      if (wire == 0) {
        value.bits = narrowed(field.kind, protozero::decode_varint(&at, end));
      } else {
        if (static_cast<std::size_t>(end - at) < size) throw protozero::end_of_buffer_exception{};
        value.bits = 0;
        for (std::size_t i = size; i-- > 0;) {
          value.bits = value.bits << 8U | static_cast<unsigned char>(at[i]);
        }
        at += size;
      }
      if (!write_value(field, value)) return false;
      ++path_.back().index;
    }
    return true;
  }

  // Sorted by key; of equal keys the last. Both fields of an entry count as given.
  bool write_map(const ProtoField& field, std::size_t begin, std::size_t end) {
    const ProtoMessage& entry = held_message(field);
    std::vector<MapEntry> entries;
    entries.reserve(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      path_.back().index = i - begin;
      MapEntry& found = entries.emplace_back();
      if (!read_key(entry, values_[i].bytes, found)) return false;
    }
    const auto key = [](const MapEntry& each) { return std::pair(each.number, each.text); };
    std::ranges::stable_sort(entries, {}, key);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i + 1 < entries.size() && key(entries[i]) == key(entries[i + 1])) continue;
      path_.back().index = i;
      if (!open(field) || !write_entry(entry, entries[i].bytes)) return false;
      close();
    }
    return true;
  }

  bool read_key(const ProtoMessage& entry, std::string_view bytes, MapEntry& found) {
    const std::size_t begin = values_.size();
    const bool is_read = collect(entry, bytes);
    found.bytes = bytes;
    for (std::size_t i = begin; i < values_.size(); ++i) {
      if (values_[i].field != 0) break;
      found.text = values_[i].bytes;
      found.number = values_[i].bits;
    }
    // Numbers below 0 come first.
    const ProtoKind kind = entry.fields[0].kind;
    if (kind == ProtoKind::kInt32 || kind == ProtoKind::kInt64)
      found.number ^= std::uint64_t{1} << 63U;
    values_.resize(begin);
    return is_read;
  }

  bool write_entry(const ProtoMessage& entry, std::string_view bytes) {
    const std::size_t begin = values_.size();
    if (!collect(entry, bytes)) return false;
    for (std::uint32_t i = 0; i < entry.fields.size(); ++i) {
      const auto ours = std::span(values_).subspan(begin);
      if (std::ranges::find(ours, i, &Value::field) == ours.end()) {
        values_.emplace_back().field = i;
      }
    }
    std::ranges::stable_sort(std::span(values_).subspan(begin), {}, &Value::field);
    const bool is_written = write_fields(entry, begin);
    values_.resize(begin);
    return is_written;
  }

  bool open(const ProtoField& field) {
    if (path_.size() >= kDeepestProto) {
      return refuse(fmt::format("more than {} messages in each other, which protobuf does not read",
                                kDeepestProto));
    }
    out_.append(indent_, ' ');
    out_ += field.name;
    out_ += " {\n";
    indent_ += 2;
    return true;
  }

  void close() {
    indent_ -= 2;
    out_.append(indent_, ' ');
    out_ += "}\n";
  }

  bool write_submessage(const ProtoField& field, std::string_view bytes) {
    if (!open(field) || !write_message(held_message(field), bytes)) return false;
    close();
    return true;
  }

  bool write_value(const ProtoField& field, const Value& value) {
    if (field.kind == ProtoKind::kMessage) return write_submessage(field, value.bytes);
    out_.append(indent_, ' ');
    out_ += field.name;
    out_ += ": ";
    switch (field.kind) {
      case ProtoKind::kString:
        if (!is_utf8(value.bytes)) return refuse("this should be a text, and is not UTF-8");
        append_quoted(out_, value.bytes, true);
        break;
      case ProtoKind::kBytes:
        append_quoted(out_, value.bytes, false);
        break;
      case ProtoKind::kFloat:
        append_float(out_, std::bit_cast<float>(static_cast<std::uint32_t>(value.bits)));
        break;
      case ProtoKind::kDouble:
        append_double(out_, std::bit_cast<double>(value.bits));
        break;
      case ProtoKind::kBool:
        out_ += value.bits != 0 ? "true" : "false";
        break;
      case ProtoKind::kUInt32:
      case ProtoKind::kUInt64:
      case ProtoKind::kFixed64:
        fmt::format_to(std::back_inserter(out_), "{}", value.bits);
        break;
      case ProtoKind::kEnum:
        if (const auto* named = held_enum(field).find(static_cast<std::int32_t>(value.bits))) {
          out_ += named->name;
          break;
        }
        [[fallthrough]];
      default:
        fmt::format_to(std::back_inserter(out_), "{}", static_cast<std::int64_t>(value.bits));
    }
    out_ += '\n';
    return true;
  }

  std::string out_;
  std::size_t indent_ = 0;
  std::vector<Value> values_;  // of all messages we are in, the innermost last
  std::vector<Step> path_;
  std::string error_;
};

}  // namespace

Result<std::string> graphdef_to_text(std::string_view bytes, TensorFlowKind kind) {
  return TextProtoWriter().write(root_message(kind), bytes);
}

}  // namespace ebb
