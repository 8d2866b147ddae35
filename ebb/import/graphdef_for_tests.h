// GraphDefs written for tests, node by node and, where that is the point, field by field.
//
//   const std::string bytes = graphdef({node("x", "Placeholder", {}, {{"dtype", type_of(1)}}),
//                                       node("y", "Relu", {"x"}, {{"T", type_of(1)}})});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protozero/pbf_writer.hpp>

#include "ebb/import/graphdef_node.h"

namespace ebb::for_tests {

using Attributes = std::vector<std::pair<std::string, std::string>>;

// AttrValues.
inline std::string type_of(int number) {
  std::string out;
  protozero::pbf_writer(out).add_enum(6, number);
  return out;
}
inline std::string number_of(std::int64_t number) {
  std::string out;
  protozero::pbf_writer(out).add_int64(3, number);
  return out;
}
inline std::string text_of(std::string_view text) {
  std::string out;
  protozero::pbf_writer(out).add_bytes(2, text.data(), text.size());
  return out;
}
inline std::string types_of(const std::vector<std::int32_t>& numbers) {
  std::string out;
  protozero::pbf_writer writer(out);
  protozero::pbf_writer list(writer, 1);
  list.add_packed_enum(6, numbers.begin(), numbers.end());
  return out;
}
inline std::string shapes_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::string list;
  for (const auto& dims : shapes) {
    std::string shape;
    for (const std::int64_t size : dims) {
      protozero::pbf_writer writer(shape);
      protozero::pbf_writer dim(writer, 2);
      dim.add_int64(1, size);
    }
    protozero::pbf_writer(list).add_message(7, shape);
  }
  std::string out;
  protozero::pbf_writer(out).add_message(1, list);
  return out;
}

// A tensor of i32: a number, or a list of them.
inline std::string ints_of(const std::vector<std::int32_t>& numbers, bool is_list = true) {
  std::string shape;
  if (is_list) {
    protozero::pbf_writer writer(shape);
    protozero::pbf_writer dim(writer, 2);
    dim.add_int64(1, static_cast<std::int64_t>(numbers.size()));
  }
  std::string tensor;
  protozero::pbf_writer writer(tensor);
  writer.add_enum(1, 3);
  writer.add_message(2, shape);
  writer.add_packed_int32(7, numbers.begin(), numbers.end());
  std::string out;
  protozero::pbf_writer(out).add_message(8, tensor);
  return out;
}

inline std::string node(std::string_view name, std::string_view op,
                        std::vector<std::string> inputs = {}, Attributes attributes = {},
                        std::string_view device = {}) {
  return write_node({.name = name,
                     .op = op,
                     .device = device,
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .rest = {}});
}

inline std::string graphdef(const std::vector<std::string>& nodes) {
  std::string out;
  for (const std::string& each : nodes) append_node(out, each);
  return out;
}

// The line of a constant in the text form: "i32[2]" and a list, or "i32[]" and a number.
inline std::string const_line(std::string_view name, const std::vector<std::int32_t>& numbers,
                              bool is_list = true) {
  std::string hex;
  for (const char byte : ints_of(numbers, is_list)) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    hex += kDigits[value >> 4];
    hex += kDigits[value & 15];
  }
  const std::string dims = is_list ? std::to_string(numbers.size()) : "";
  return "  const %" + std::string(name) + ": i32[" + dims + "] @host {value = hex\"" + hex +
         "\"}\n";
}

// Most of what tests need.
inline constexpr int kFloat = 1;
inline constexpr int kInt32 = 3;
inline constexpr int kBool = 10;
inline std::string placeholder(std::string_view name, int type = kFloat) {
  return node(name, "Placeholder", {}, {{"dtype", type_of(type)}});
}
inline std::string unary(std::string_view name, std::string_view op, std::string_view input,
                         int type = kFloat) {
  return node(name, op, {std::string(input)}, {{"T", type_of(type)}});
}
inline std::string binary(std::string_view name, std::string_view op,
                          std::vector<std::string> inputs, int type = kFloat) {
  return node(name, op, std::move(inputs), {{"T", type_of(type)}});
}
inline std::string merge(std::string_view name, std::vector<std::string> inputs,
                         int type = kFloat) {
  const auto count = static_cast<std::int64_t>(inputs.size());
  return node(name, "Merge", std::move(inputs), {{"N", number_of(count)}, {"T", type_of(type)}});
}
inline std::string enter(std::string_view name, std::string_view input, std::string_view frame) {
  return node(name, "Enter", {std::string(input)},
              {{"T", type_of(kFloat)}, {"frame_name", text_of(frame)}});
}

}  // namespace ebb::for_tests
