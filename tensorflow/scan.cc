#include "scan.h"

#include <protozero/pbf_reader.hpp>

#include "ebb/rewrite/lms_names.h"

namespace ebb::grappler {
namespace {

// Field numbers of TensorFlow's graph.proto, node_def.proto and attr_value.proto.
namespace graph_def {
constexpr protozero::pbf_tag_type kNode = 1;
}
namespace node_def {
constexpr protozero::pbf_tag_type kName = 1;
constexpr protozero::pbf_tag_type kDevice = 4;
constexpr protozero::pbf_tag_type kAttr = 5;
}  // namespace node_def
namespace map_entry {
constexpr protozero::pbf_tag_type kKey = 1;
constexpr protozero::pbf_tag_type kValue = 2;
}  // namespace map_entry
namespace attr_value {
constexpr protozero::pbf_tag_type kBool = 5;
}

std::string_view as_text(protozero::data_view view) { return {view.data(), view.size()}; }

// "/job:localhost/replica:0/task:0/device:GPU:1" is "/device:GPU:*".
bool is_device(std::string_view device, std::string_view pattern) {
  const std::size_t at = device.rfind("/device:");
  if (at == std::string_view::npos) return false;
  if (pattern.starts_with("/device:")) device.remove_prefix(at);
  if (pattern.ends_with('*')) return device.starts_with(pattern.substr(0, pattern.size() - 1));
  return device == pattern;
}

bool is_true(protozero::pbf_reader value) {
  bool answer = false;
  while (value.next()) {
    if (value.tag_and_type() ==
        protozero::tag_and_type(attr_value::kBool, protozero::pbf_wire_type::varint)) {
      answer = value.get_bool();
    } else {
      value.skip();
    }
  }
  return answer;
}

struct AttributeMarks {
  bool ours = false;
  bool compiled_by_xla = false;
};

AttributeMarks read_attribute(protozero::pbf_reader entry) {
  std::string_view key;
  protozero::pbf_reader value;
  while (entry.next()) {
    if (entry.tag() == map_entry::kKey) {
      key = as_text(entry.get_view());
    } else if (entry.tag() == map_entry::kValue && key == "_XlaMustCompile") {
      value = entry.get_message();
    } else {
      entry.skip();
    }
  }
  return {.ours = key == "_ebb", .compiled_by_xla = key == "_XlaMustCompile" && is_true(value)};
}

}  // namespace

Scan scan_graphdef(std::string_view graphdef, const Configuration& configuration) {
  const std::vector<std::string>& scopes = configuration.lms.optimizer_scopes;
  Scan scan;
  protozero::pbf_reader graph(graphdef.data(), graphdef.size());
  while (graph.next(graph_def::kNode)) {
    ++scan.nodes;
    std::string_view name;
    bool is_opaque = false;
    protozero::pbf_reader node = graph.get_message();
    while (node.next()) {
      switch (node.tag()) {
        case node_def::kName:
          name = as_text(node.get_view());
          break;
        case node_def::kDevice:
          if (is_device(as_text(node.get_view()), configuration.devices.accelerator)) {
            ++scan.accelerator_nodes;
          }
          break;
        case node_def::kAttr: {
          const AttributeMarks marks = read_attribute(node.get_message());
          scan.was_rewritten |= marks.ours;
          is_opaque |= marks.compiled_by_xla;
          break;
        }
        default:
          node.skip();
      }
    }
    if (is_opaque && scan.opaque_call.empty()) scan.opaque_call = name;
    if (scopes.empty() ? in_gradient_scope(name) : in_any_scope(name, scopes)) {
      ++scan.backward_nodes;
    }
  }
  return scan;
}

}  // namespace ebb::grappler
