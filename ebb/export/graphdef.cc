#include "ebb/export/graphdef.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "ebb/export/graphdef_names.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/import/graphdef_attributes.h"
#include "ebb/import/graphdef_error.h"
#include "ebb/import/graphdef_node.h"
#include "ebb/import/graphdef_notes.h"
#include "ebb/import/tensorflow_device.h"
#include "ebb/import/tensorflow_types.h"

namespace ebb {
namespace {

using Attributes = std::vector<std::pair<std::string, std::string>>;

class Exporter {
 public:
  Exporter(const Graph& graph, const GraphDefExport& options)
      : graph_(graph), options_(options), names_(graph) {}

  Result<std::string> run() {
    std::string rest;
    std::vector<Entry> entries;
    entries.reserve(graph_.node_count());
    std::int64_t position = -1;  // of the last node that was there before
    std::int64_t counter = 0;
    for (const NodeId node : graph_.order()) {
      if (graph_.op(node) == kFileOp) {
        rest = note(node, kFileRest).value_or("");
        continue;
      }
      auto bytes = is_new_node(graph_, node) ? new_node(node) : old_node(node);
      if (!bytes) return fail(bytes.error());
      Entry entry;
      entry.bytes = std::move(*bytes);
      if (!is_new_node(graph_, node)) {
        position = position_of(node).value_or(counter);
        ++counter;
        entry.before = note(node, kBytesBefore).value_or("");
        entry.frame = note(node, kNodeFrame).value_or("");
      } else {
        entry.is_new = true;
      }
      entry.position = position;
      entries.push_back(std::move(entry));
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tuple(a.position, a.is_new) < std::tuple(b.position, b.is_new);
    });
    std::string out;
    for (const Entry& entry : entries) {
      out += entry.before;
      append_node(out, entry.bytes, entry.frame);
    }
    return out + rest;
  }

 private:
  struct Entry {
    std::string bytes;
    std::string_view before;
    std::string_view frame;
    std::int64_t position = 0;
    bool is_new = false;
  };

  std::optional<std::string_view> note(NodeId node, std::string_view key) const {
    const Attribute* attribute = graph_.find_attribute(node, key);
    if (attribute == nullptr || attribute->is_list) return std::nullopt;
    const Value& value = graph_.items(*attribute).front();
    if (const auto* blob = std::get_if<Blob>(&value)) return graph_.text(blob->id);
    if (const auto* text = std::get_if<Text>(&value)) return graph_.text(text->id);
    return std::nullopt;
  }

  std::optional<std::int64_t> position_of(NodeId node) const {
    const Attribute* attribute = graph_.find_attribute(node, kFilePosition);
    if (attribute == nullptr || attribute->is_list) return std::nullopt;
    const auto* number = std::get_if<std::int64_t>(&graph_.items(*attribute).front());
    return number == nullptr ? std::nullopt : std::optional(*number);
  }

  Result<std::string> operator_of(NodeId node) const {
    if (const auto op = note(node, kTensorFlowOp)) return std::string(*op);
    const bool knows_type = graph_.find_attribute(node, "dtype") != nullptr ||
                            graph_.find_attribute(node, "T") != nullptr;
    switch (graph_.kind(node)) {
      case NodeKind::kConst:
        if (knows_type) return std::string("Const");
        break;
      case NodeKind::kParam:
        if (knows_type) return std::string("VarHandleOp");
        break;
      case NodeKind::kInput:
        if (knows_type) return std::string("Placeholder");
        break;
      default:
        if (graph_.op(node).starts_with(kOpPrefix)) {
          return std::string(graph_.op(node).substr(kOpPrefix.size()));
        }
    }
    return refuse_graphdef(
        "G10", fmt::format("'{}' did not come from TensorFlow; only graphs that were read "
                           "from a GraphDef can be written as one",
                           graph_.name(node)));
  }

  Result<std::vector<std::string>> inputs_of(NodeId node) const {
    std::vector<std::string> inputs;
    const auto operands = graph_.operands(node);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].tensor.valid()) {
        inputs.push_back(names_.input(operands[i].tensor));
      } else if (const auto feeder = names_.feeder(node, i)) {
        inputs.emplace_back(*feeder);
      } else {
        return refuse_graphdef("G10",
                               fmt::format("operand {} of '{}' is absent, which TensorFlow has no "
                                           "form for",
                                           i, graph_.name(node)));
      }
    }
    for (const NodeId control : graph_.controls(node)) {
      inputs.push_back(fmt::format("^{}", names_.node(control)));
    }
    return inputs;
  }

  Attributes attributes_of(NodeId node) const {
    Attributes attributes;
    for (const Attribute& attribute : graph_.attributes(node)) {
      const std::string_view key = graph_.text(attribute.key);
      if (is_reserved(key)) continue;
      attributes.emplace_back(key, attr_value_of(graph_, attribute));
    }
    return attributes;
  }

  Result<std::string> old_node(NodeId node) const {
    auto inputs = inputs_of(node);
    if (!inputs) return fail(inputs.error());
    if (const auto bytes = note(node, kNodeBytes)) return with_changed_inputs(*bytes, *inputs);
    const auto op = operator_of(node);
    if (!op) return fail(op.error());
    return write_node({.name = graph_.name(node),
                       .op = *op,
                       .device = graph_.device(node),
                       .inputs = std::move(*inputs),
                       .attributes = attributes_of(node),
                       .rest = note(node, kNodeRest).value_or("")});
  }

  Result<std::string> new_node(NodeId node) const {
    const std::string_view op = graph_.op(node);
    auto inputs = inputs_of(node);
    if (!inputs) return fail(inputs.error());
    const std::string name(names_.node(node));
    if (op == kSwapOut || op == kSwapIn) return write_swap(node, name, std::move(*inputs));
    if (is_copy(op)) {
      return refuse_graphdef(
          "G11", fmt::format("'{}' ({}) has no form in TensorFlow yet; rewrite without "
                             "{}",
                             graph_.name(node), op, op == kSnapshot ? "snapshots" : "codecs"));
    }
    const auto tensorflow_op = operator_of(node);
    if (!tensorflow_op) return fail(tensorflow_op.error());
    Attributes attributes = attributes_of(node);
    if (const auto bytes = note(node, kNodeBytes)) {
      // The original's, in which there are some that a graph cannot have.
      const auto all = attributes_of_node(*bytes);
      attributes.assign(all.begin(), all.end());
    }
    const NodeId original = graph_.clone_of(node);
    set(attributes, kMark, text_attr_value("recompute"));
    set(attributes, kMarkOf, text_attr_value(names_.node(original)));
    set(attributes, kDoNotRemove, bool_attr_value(true));
    return write_node({.name = name,
                       .op = *tensorflow_op,
                       .device = graph_.device(node),
                       .inputs = std::move(*inputs),
                       .attributes = std::move(attributes),
                       .rest = note(node, kNodeRest).value_or("")});
  }

  Result<std::string> write_swap(NodeId node, const std::string& name,
                                 std::vector<std::string> inputs) const {
    const bool goes_out = graph_.op(node) == kSwapOut;
    const TensorId copied = graph_.operands(node)[0].tensor;
    const TensorType& type = graph_.type(copied);
    const auto number = tensorflow_type_of(type.dtype);
    if (!number) {
      return refuse_graphdef("G10", fmt::format("'{}' is of type {}, which TensorFlow has not",
                                                graph_.name(copied), ebb::name(type.dtype)));
    }
    const std::string_view accelerator = graph_.device(node);
    const bool by_kernel = options_.swap_nodes == SwapNodes::kCopyKernels;
    const std::string_view op = !by_kernel ? "Identity" : goes_out ? kCopyOutOp : kCopyInOp;
    Attributes attributes;
    set(attributes, "T", type_attr_value(*number));
    set(attributes, kMark, text_attr_value(goes_out ? "swap_out" : "swap_in"));
    if (!accelerator.empty()) set(attributes, kMarkDevice, text_attr_value(accelerator));
    set(attributes, kDoNotRemove, bool_attr_value(true));
    if (const auto shapes = output_shapes(copied)) set(attributes, kOutputShapes, *shapes);
    return write_node({.name = name,
                       .op = op,
                       .device = by_kernel ? std::string(accelerator)
                                           : device_beside(accelerator, options_.devices.host),
                       .inputs = std::move(inputs),
                       .attributes = std::move(attributes),
                       .rest = {}});
  }

  // Shapes are given where the graph has them for others.
  std::optional<std::string> output_shapes(TensorId tensor) const {
    const NodeId maker = graph_.producer(tensor);
    if (graph_.op(maker) == kSwapOut) return output_shapes(graph_.operands(maker)[0].tensor);
    if (graph_.find_attribute(maker, kOutputShapes) == nullptr) return std::nullopt;
    return shapes_attr_value(graph_.type(tensor));
  }

  static void set(Attributes& attributes, std::string_view key, std::string value) {
    const auto known = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const auto& each) { return each.first == key; });
    if (known != attributes.end()) {
      known->second = std::move(value);
    } else {
      attributes.emplace_back(key, std::move(value));
    }
  }

  static constexpr std::string_view kOutputShapes = "_output_shapes";

  const Graph& graph_;
  const GraphDefExport& options_;
  TensorFlowNames names_;
};

}  // namespace

// The name of an operator stands in a GraphDef as it is.
SwapNodes swap_nodes_of(std::string_view graphdef) {
  const bool has_kernels = graphdef.find(kCopyInOp) != std::string_view::npos;
  return has_kernels ? SwapNodes::kCopyKernels : SwapNodes::kIdentity;
}

Result<std::string> export_graphdef(const Graph& graph, const GraphDefExport& options) {
  const auto& [accelerator, host] = options.devices;
  if (auto ok = check_host_device(host, "host"); !ok) return fail(ok.error());
  const bool has_swaps =
      std::ranges::any_of(graph.order(), [&](NodeId node) { return graph.op(node) == kSwapOut; });
  if (has_swaps) {
    if (auto ok = check_are_apart(accelerator, host); !ok) return fail(ok.error());
  }
  return Exporter(graph, options).run();
}

}  // namespace ebb
