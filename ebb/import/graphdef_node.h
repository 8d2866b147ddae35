// A GraphDef taken apart: nodes as views into its bytes, and what stands between them. And a node's
// bytes made from its parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/base/result.h"

namespace ebb {

// All views are into the GraphDef's bytes.
struct NodeDefView {
  std::string_view bytes;
  std::string_view frame;  // what announces the bytes: the field's number and their length
  std::string_view name;
  std::string_view op;
  std::string_view device;
  std::vector<std::string_view> inputs;  // "a", "a:1"; then "^b", which are control edges
  // The value is a serialized AttrValue.
  std::vector<std::pair<std::string_view, std::string_view>> attributes;
  std::string_view rest;    // what stands behind the attributes: fields that are not ours
  bool is_in_order = true;  // the fields stand as protobuf writes them, each at most once

  [[nodiscard]] std::optional<std::string_view> attribute(std::string_view key) const;
};

// Of a NodeDef by itself. Bytes that are none have no name and no inputs.
std::string_view name_of_node(std::string_view node);
std::vector<std::string_view> inputs_of_node(std::string_view node);
std::vector<std::pair<std::string_view, std::string_view>> attributes_of_node(
    std::string_view node);

struct GraphDefView {
  std::vector<NodeDefView> nodes;
  // What stands before the node of this number, and (number of nodes) at the end: other fields.
  std::vector<std::pair<std::size_t, std::string>> between;
};

// Errors name the node, or the byte.
[[nodiscard]] Result<GraphDefView> read_graphdef(std::string_view bytes);

// "a:1" is result 1 of 'a', "a" its result 0; "^a" is a control edge.
struct InputName {
  std::string_view node;
  std::uint32_t result = 0;
  bool is_control = false;
};
std::optional<InputName> read_input(std::string_view text);
std::string input_text(std::string_view node, std::uint32_t result);

// A node's parts for writing.
struct NodeDefParts {
  std::string_view name;
  std::string_view op;
  std::string_view device;
  std::vector<std::string> inputs;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string_view rest;
};
std::string write_node(const NodeDefParts& parts);
// The same bytes with other inputs, everything else as it stands.
std::string with_inputs(std::string_view node, const std::vector<std::string>& inputs);

// What announces a node of this size in a GraphDef.
void append_node_frame(std::string& graphdef, std::size_t size);
// Appends field 1 of a GraphDef; announced by `frame` where that announces a node of this size.
void append_node(std::string& graphdef, std::string_view node);
void append_node(std::string& graphdef, std::string_view node, std::string_view frame);

}  // namespace ebb
