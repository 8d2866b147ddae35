#include "ebb/import/graphdef_node.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "ebb/import/graphdef_error.h"

namespace ebb {
namespace {

// The fields of a GraphDef and of a NodeDef.
constexpr protozero::pbf_tag_type kGraphNode = 1;
constexpr protozero::pbf_tag_type kName = 1;
constexpr protozero::pbf_tag_type kOp = 2;
constexpr protozero::pbf_tag_type kInput = 3;
constexpr protozero::pbf_tag_type kDevice = 4;
constexpr protozero::pbf_tag_type kAttribute = 5;

// A field of ours has its number and its wire type; another of that number is none that we know.
bool is_bytes(const protozero::pbf_reader& reader) {
  return reader.wire_type() == protozero::pbf_wire_type::length_delimited;
}

std::string_view view_of(protozero::data_view data) { return {data.data(), data.size()}; }

std::pair<std::string_view, std::string_view> read_attribute(std::string_view entry,
                                                             bool& is_in_order) {
  std::pair<std::string_view, std::string_view> attribute;
  protozero::pbf_reader reader(entry.data(), entry.size());
  protozero::pbf_tag_type last = 0;
  while (reader.next()) {
    is_in_order = is_in_order && is_bytes(reader) && reader.tag() == last + 1;
    last = reader.tag();
    if (is_bytes(reader) && last == 1) {
      attribute.first = view_of(reader.get_view());
    } else if (is_bytes(reader) && last == 2) {
      attribute.second = view_of(reader.get_view());
    } else {
      reader.skip();
    }
  }
  is_in_order = is_in_order && last == 2;
  return attribute;
}

NodeDefView read_node(std::string_view bytes) {
  NodeDefView node;
  node.bytes = bytes;
  node.rest = bytes;
  protozero::pbf_reader reader(bytes.data(), bytes.size());
  protozero::pbf_tag_type last = 0;
  while (reader.next()) {
    const protozero::pbf_tag_type tag = reader.tag();
    if (tag > kAttribute || !is_bytes(reader)) {
      last = kAttribute + 1;  // not ours: nothing of ours stands behind it in good order
      reader.skip();
      continue;
    }
    const bool may_repeat = tag == kInput || tag == kAttribute;
    if (tag < last || (tag == last && !may_repeat)) node.is_in_order = false;
    last = std::max(last, tag);
    const std::string_view content = view_of(reader.get_view());
    switch (tag) {
      case kName:
        node.name = content;
        break;
      case kOp:
        node.op = content;
        break;
      case kInput:
        node.inputs.push_back(content);
        break;
      case kDevice:
        node.device = content;
        break;
      default:
        node.attributes.push_back(read_attribute(content, node.is_in_order));
    }
    node.rest = bytes.substr(bytes.size() - reader.length());
  }
  return node;
}

NodeDefView read_alone(std::string_view bytes) {
  try {
    return read_node(bytes);
  } catch (const protozero::exception&) {
    return {};
  }
}

}  // namespace

std::optional<std::string_view> NodeDefView::attribute(std::string_view key) const {
  // The last one counts, as in protobuf.
  const auto found = std::find_if(attributes.rbegin(), attributes.rend(),
                                  [&](const auto& each) { return each.first == key; });
  return found == attributes.rend() ? std::nullopt : std::optional(found->second);
}

Result<GraphDefView> read_graphdef(std::string_view bytes) {
  if (bytes.size() > 0x7FFFFFFF) {
    return refuse_graphdef("G08", "a protobuf has less than 2 GiB, and this has more");
  }
  GraphDefView graph;
  protozero::pbf_reader reader(bytes.data(), bytes.size());
  try {
    while (true) {
      const std::size_t start = bytes.size() - reader.length();
      if (!reader.next()) break;
      if (reader.tag_and_type() ==
          protozero::tag_and_type(kGraphNode, protozero::pbf_wire_type::length_delimited)) {
        const std::string_view node = view_of(reader.get_view());
        try {
          graph.nodes.push_back(read_node(node));
        } catch (const protozero::exception&) {
          return refuse_graphdef("G01",
                                 fmt::format("node {} of the graph is no NodeDef, from byte {} on",
                                             graph.nodes.size(), start));
        }
        const std::size_t end = bytes.size() - reader.length();
        graph.nodes.back().frame = bytes.substr(start, end - node.size() - start);
        continue;
      }
      reader.skip();
      const std::string_view other = bytes.substr(start, bytes.size() - reader.length() - start);
      if (graph.between.empty() || graph.between.back().first != graph.nodes.size()) {
        graph.between.emplace_back(graph.nodes.size(), std::string());
      }
      graph.between.back().second += other;
    }
  } catch (const protozero::exception&) {
    return refuse_graphdef(
        "G01", fmt::format("the bytes are no GraphDef, or a part of one: {} of {} could "
                           "be read; write the file again, in binary form",
                           bytes.size() - reader.length(), bytes.size()));
  }
  return graph;
}

std::optional<InputName> read_input(std::string_view text) {
  if (text.starts_with('^')) {
    text.remove_prefix(1);
    if (text.empty()) return std::nullopt;
    return InputName{.node = text, .is_control = true};
  }
  InputName input{.node = text};
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    input.node = text.substr(0, colon);
    const std::string_view number = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), input.result);
    if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  }
  if (input.node.empty()) return std::nullopt;
  return input;
}

std::string input_text(std::string_view node, std::uint32_t result) {
  return result == 0 ? std::string(node) : fmt::format("{}:{}", node, result);
}

std::string write_node(const NodeDefParts& parts) {
  std::string out;
  protozero::pbf_writer writer(out);
  const auto add = [&](protozero::pbf_tag_type tag, std::string_view text) {
    writer.add_bytes(tag, text.data(), text.size());
  };
  if (!parts.name.empty()) add(kName, parts.name);
  if (!parts.op.empty()) add(kOp, parts.op);
  for (const std::string& input : parts.inputs) add(kInput, input);
  if (!parts.device.empty()) add(kDevice, parts.device);
  for (const auto& [key, value] : parts.attributes) {
    protozero::pbf_writer entry(writer, kAttribute);
    entry.add_bytes(1, key.data(), key.size());
    entry.add_bytes(2, value.data(), value.size());
  }
  out += parts.rest;
  return out;
}

std::string with_inputs(std::string_view node, const std::vector<std::string>& inputs) {
  std::string out;
  protozero::pbf_writer writer(out);
  bool are_written = false;
  const auto write_inputs = [&] {
    if (are_written) return;
    are_written = true;
    for (const std::string& input : inputs) writer.add_string(kInput, input);
  };
  protozero::pbf_reader reader(node.data(), node.size());
  while (true) {
    const std::size_t start = node.size() - reader.length();
    if (!reader.next()) break;
    const protozero::pbf_tag_type tag = reader.tag();
    const bool is_input = tag == kInput && is_bytes(reader);
    reader.skip();
    if (tag >= kInput) write_inputs();
    if (!is_input) out += node.substr(start, node.size() - reader.length() - start);
  }
  write_inputs();
  return out;
}

std::string_view name_of_node(std::string_view node) { return read_alone(node).name; }
std::vector<std::string_view> inputs_of_node(std::string_view node) {
  return read_alone(node).inputs;
}
std::vector<std::pair<std::string_view, std::string_view>> attributes_of_node(
    std::string_view node) {
  return read_alone(node).attributes;
}

void append_node_frame(std::string& graphdef, std::size_t size) {
  protozero::add_varint_to_buffer(
      &graphdef, protozero::tag_and_type(kGraphNode, protozero::pbf_wire_type::length_delimited));
  protozero::add_varint_to_buffer(&graphdef, size);
}

void append_node(std::string& graphdef, std::string_view node) {
  protozero::pbf_writer(graphdef).add_bytes(kGraphNode, node.data(), node.size());
}

void append_node(std::string& graphdef, std::string_view node, std::string_view frame) {
  const std::size_t before = graphdef.size();
  graphdef += frame;
  graphdef += node;
  const auto fits = [&] {
    try {
      protozero::pbf_reader reader(graphdef.data() + before, graphdef.size() - before);
      return reader.next(kGraphNode, protozero::pbf_wire_type::length_delimited) &&
             reader.get_view().size() == node.size();
    } catch (const protozero::exception&) {
      return false;  // a frame for a node of another size
    }
  };
  if (fits()) return;
  graphdef.resize(before);
  append_node(graphdef, node);
}

}  // namespace ebb
