#include "scan.h"

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <protozero/pbf_reader.hpp>

#include "ebb/import/tensorflow_device.h"
#include "ebb/rewrite/lms_names.h"

namespace ebb::grappler {
namespace {

// Field numbers of TensorFlow's graph.proto, node_def.proto and attr_value.proto.
using Tag = protozero::pbf_tag_type;
namespace graph_def {
constexpr Tag kNode = 1;
}
namespace node_def {
constexpr Tag kName = 1;
constexpr Tag kOp = 2;
constexpr Tag kDevice = 4;
constexpr Tag kAttr = 5;
constexpr Tag kDebugInfo = 6;
}  // namespace node_def
namespace debug_info {
constexpr Tag kFunction = 2;
}
namespace map_entry {
constexpr Tag kKey = 1;
constexpr Tag kValue = 2;
}  // namespace map_entry
namespace attr_value {
constexpr Tag kBool = 5;
constexpr Tag kFunction = 10;
}  // namespace attr_value
namespace name_attr_list {
constexpr Tag kName = 1;
}

std::string_view as_text(protozero::data_view view) { return {view.data(), view.size()}; }

// The text in a field of a message, the first one; empty when there is none.
std::string_view text_in(protozero::pbf_reader message, Tag field) {
  return message.next(field) ? as_text(message.get_view()) : std::string_view();
}

struct NodeMarks {
  std::string_view name;
  std::string_view op;
  std::string_view device;
  std::string_view inlined_from;
  std::string_view calls;
  bool ours = false;
  bool compiled_by_xla = false;
};

void read_attribute(protozero::pbf_reader entry, NodeMarks& marks) {
  const std::string_view key = text_in(entry, map_entry::kKey);
  marks.ours |= key == "_ebb";
  const bool is_compiled = key == "_XlaMustCompile";
  if ((!is_compiled && key != "f") || !entry.next(map_entry::kValue)) return;
  protozero::pbf_reader value = entry.get_message();
  while (value.next()) {
    if (is_compiled && value.tag() == attr_value::kBool) {
      marks.compiled_by_xla = value.get_bool();
    } else if (!is_compiled && value.tag() == attr_value::kFunction) {
      marks.calls = text_in(value.get_message(), name_attr_list::kName);
    } else {
      value.skip();
    }
  }
}

NodeMarks read_node(protozero::pbf_reader node) {
  NodeMarks marks;
  while (node.next()) {
    switch (node.tag()) {
      case node_def::kName:
        marks.name = as_text(node.get_view());
        break;
      case node_def::kOp:
        marks.op = as_text(node.get_view());
        break;
      case node_def::kDevice:
        marks.device = as_text(node.get_view());
        break;
      case node_def::kAttr:
        read_attribute(node.get_message(), marks);
        break;
      case node_def::kDebugInfo:
        marks.inlined_from = text_in(node.get_message(), debug_info::kFunction);
        break;
      default:
        node.skip();
    }
  }
  return marks;
}

class Scanner {
 public:
  explicit Scanner(const Configuration& configuration)
      : configuration_(configuration),
        accelerator_(read_device(configuration.devices.accelerator)) {}

  Scan scan(std::string_view graphdef) {
    protozero::pbf_reader graph(graphdef.data(), graphdef.size());
    while (graph.next(graph_def::kNode)) count(read_node(graph.get_message()));
    std::size_t most = 0;
    for (const auto& [function, backward_nodes] : inlined_) {
      if (backward_nodes <= most) continue;
      most = backward_nodes;
      scan_.function = function;
    }
    return std::move(scan_);
  }

 private:
  [[nodiscard]] bool is_backward(std::string_view name) const {
    const std::vector<std::string>& scopes = configuration_.lms.optimizer_scopes;
    return scopes.empty() ? in_gradient_scope(name) : in_any_scope(name, scopes);
  }

  // Few devices are many nodes'.
  bool is_on_accelerator(std::string_view device) {
    const auto [known, is_new] = devices_.try_emplace(device, false);
    if (is_new) known->second = matches(accelerator_, read_device(device));
    return known->second;
  }

  void count(const NodeMarks& node) {
    ++scan_.nodes;
    scan_.was_rewritten |= node.ours;
    if (node.compiled_by_xla && scan_.opaque_function.empty()) {
      scan_.opaque_function = node.calls.empty() ? node.name : node.calls;
    }
    if (is_on_accelerator(node.device)) ++scan_.accelerator_nodes;
    if (node.op == "_Arg" || node.op == "_Retval") {
      scan_.signature += std::hash<std::string_view>()(node.name);
    }
    if (!is_backward(node.name)) return;
    ++scan_.backward_nodes;
    if (!node.inlined_from.empty()) ++inlined_[node.inlined_from];
  }

  const Configuration& configuration_;
  const DeviceName accelerator_;
  std::map<std::string_view, bool> devices_;
  Scan scan_;
  std::map<std::string_view, std::size_t> inlined_;  // how many backward nodes of each function
};

}  // namespace

Scan scan_graphdef(std::string_view graphdef, const Configuration& configuration) {
  return Scanner(configuration).scan(graphdef);
}

}  // namespace ebb::grappler
