// Canonical protobuf bytes, built while the fields come in any order.
//
// Everything goes to the end of one buffer. A message that is closed gets its length put in front;
// where its fields did not come in order of number, or are packed, its bytes are sorted in place
// first. So a message is moved once for each message around it, and nothing is built twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/import/tensorflow_schema.h"

namespace ebb {

class ProtoBuilder {
 public:
  // What close() needs to know of an open message. Messages are closed in the reverse order.
  struct Open {
    const ProtoMessage* message;
    std::size_t begin;   // of its content
    std::size_t pieces;  // begin of its pieces
  };

  [[nodiscard]] Open open_root(const ProtoMessage& message);
  [[nodiscard]] Open open(const Open& parent, const ProtoField& field);
  void close(const Open& root);
  void close(const Open& parent, const ProtoField& field, const Open& child);

  // Values of any kind but messages: numbers as their bits on the wire, before zigzag.
  void add_number(const Open& to, const ProtoField& field, std::uint64_t bits);
  void add_bytes(const Open& to, const ProtoField& field, std::string_view bytes);

  [[nodiscard]] std::string& bytes() { return out_; }

 private:
  // Bytes of one field, or of many values of it that follow each other. Packed values have no tags.
  struct Piece {
    std::uint32_t field;  // its index in the message
    std::size_t begin;
    std::size_t end;
  };

  void put_varint(std::uint64_t value);
  void put_tag(const ProtoField& field, std::uint32_t wire_type);
  void put_number(ProtoKind kind, std::uint64_t bits);
  void note(const Open& to, const ProtoField& field, std::size_t begin);
  void sort(const Open& message);
  void fill_map_entry(const Open& entry);

  std::string out_;
  std::string sorted_;         // scratch
  std::vector<Piece> pieces_;  // of all open messages, the innermost last
};

}  // namespace ebb
