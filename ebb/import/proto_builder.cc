#include "ebb/import/proto_builder.h"

#include <algorithm>
#include <array>

#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>

namespace ebb {
namespace {

constexpr std::uint32_t kLengthDelimited = 2;

// A default that is the same as nothing is not written; entries of maps have both of their fields.
bool is_left_out(const ProtoMessage& message, const ProtoField& field, bool is_default) {
  return is_default && field.label == ProtoLabel::kImplicit && !message.is_map_entry;
}

}  // namespace

void ProtoBuilder::put_varint(std::uint64_t value) {
  protozero::add_varint_to_buffer(&out_, value);
}

void ProtoBuilder::put_tag(const ProtoField& field, std::uint32_t wire_type) {
  put_varint(field.number << 3U | wire_type);
}

void ProtoBuilder::put_number(ProtoKind kind, std::uint64_t bits) {
  const std::uint32_t wire = wire_type(kind);
  if (wire == 0) {
    const auto value = static_cast<std::int64_t>(bits);
    put_varint(kind == ProtoKind::kSInt64 ? protozero::encode_zigzag64(value) : bits);
    return;
  }
  for (unsigned i = 0; i < (wire == 1 ? 8U : 4U); ++i) {
    out_ += static_cast<char>(bits >> (8 * i) & 0xFFU);
  }
}

// What was put since `begin` belongs to the field.
void ProtoBuilder::note(const Open& to, const ProtoField& field, std::size_t begin) {
  const auto index = static_cast<std::uint32_t>(to.message->index_of(field));
  if (pieces_.size() > to.pieces && pieces_.back().field == index) {
    pieces_.back().end = out_.size();
  } else {
    pieces_.push_back({.field = index, .begin = begin, .end = out_.size()});
  }
}

ProtoBuilder::Open ProtoBuilder::open_root(const ProtoMessage& message) {
  return {.message = &message, .begin = out_.size(), .pieces = pieces_.size()};
}

ProtoBuilder::Open ProtoBuilder::open(const Open& parent, const ProtoField& field) {
  const std::size_t begin = out_.size();
  put_tag(field, kLengthDelimited);
  out_ += '\0';  // the length, when it is below 128
  note(parent, field, begin);
  return open_root(held_message(field));
}

void ProtoBuilder::close(const Open& root) {
  if (root.message->is_map_entry) fill_map_entry(root);
  sort(root);
  pieces_.resize(root.pieces);
}

void ProtoBuilder::close(const Open& parent, const ProtoField& field, const Open& child) {
  close(child);
  std::array<char, protozero::max_varint_length> length{};
  char* end = length.data();
  const std::size_t written =
      static_cast<std::size_t>(protozero::add_varint_to_buffer(end, out_.size() - child.begin));
  out_.replace(child.begin - 1, 1, length.data(), written);
  note(parent, field, out_.size());
}

void ProtoBuilder::add_number(const Open& to, const ProtoField& field, std::uint64_t bits) {
  if (is_left_out(*to.message, field, bits == 0)) return;
  const std::size_t begin = out_.size();
  if (field.label != ProtoLabel::kPacked) put_tag(field, wire_type(field.kind));
  put_number(field.kind, bits);
  note(to, field, begin);
}

void ProtoBuilder::add_bytes(const Open& to, const ProtoField& field, std::string_view bytes) {
  if (is_left_out(*to.message, field, bytes.empty())) return;
  const std::size_t begin = out_.size();
  put_tag(field, kLengthDelimited);
  put_varint(bytes.size());
  out_ += bytes;
  note(to, field, begin);
}

void ProtoBuilder::fill_map_entry(const Open& entry) {
  for (const ProtoField& field : entry.message->fields) {
    const auto index = static_cast<std::uint32_t>(entry.message->index_of(field));
    const auto begin = pieces_.begin() + static_cast<std::ptrdiff_t>(entry.pieces);
    if (std::any_of(begin, pieces_.end(), [&](const Piece& p) { return p.field == index; })) {
      continue;
    }
    if (wire_type(field.kind) == kLengthDelimited) {
      const std::size_t at = out_.size();
      put_tag(field, kLengthDelimited);
      put_varint(0);
      note(entry, field, at);
    } else {
      add_number(entry, field, 0);
    }
  }
}

void ProtoBuilder::sort(const Open& message) {
  const auto begin = pieces_.begin() + static_cast<std::ptrdiff_t>(message.pieces);
  const auto is_packed = [&](const Piece& piece) {
    return message.message->fields[piece.field].label == ProtoLabel::kPacked;
  };
  if (std::is_sorted(begin, pieces_.end(),
                     [](const Piece& a, const Piece& b) { return a.field < b.field; }) &&
      std::none_of(begin, pieces_.end(), is_packed)) {
    return;
  }
  std::stable_sort(begin, pieces_.end(),
                   [](const Piece& a, const Piece& b) { return a.field < b.field; });
  sorted_.clear();
  for (auto piece = begin; piece != pieces_.end();) {
    const auto group_end = std::find_if(
        piece, pieces_.end(), [&](const Piece& other) { return other.field != piece->field; });
    if (is_packed(*piece)) {
      std::size_t size = 0;
      for (auto each = piece; each != group_end; ++each) size += each->end - each->begin;
      const std::uint32_t number = message.message->fields[piece->field].number;
      protozero::add_varint_to_buffer(&sorted_, number << 3U | kLengthDelimited);
      protozero::add_varint_to_buffer(&sorted_, size);
    }
    for (; piece != group_end; ++piece) {
      sorted_.append(out_, piece->begin, piece->end - piece->begin);
    }
  }
  out_.resize(message.begin);
  out_ += sorted_;
}

}  // namespace ebb
