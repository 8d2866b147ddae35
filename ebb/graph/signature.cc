#include "ebb/graph/signature.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/text_names.h"

namespace ebb {
namespace {

// One kind of value never looks like another: 1 is an integer, 1.0 a float, "1" a text.
class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph) {}

  std::string write(NodeId node) {
    if (graph_.is_op(node)) {
      append_op(out_, graph_.op(node));
      out_ += '(';
      write_operands(node);
      write_values(graph_.scalar_arguments(node));
      out_ += ')';
    } else {
      write_kind(graph_.kind(node));
    }
    write_attributes(node);
    if (graph_.effect(node) == Effect::kRandom) out_ += " random";
    if (graph_.effect(node) == Effect::kEffect) out_ += " effect";
    if (const auto device = graph_.device(node); !device.empty()) {
      out_ += " @";
      append_quoted(out_, device);
    }
    write_results(node);
    return std::move(out_);
  }

 private:
  void write_kind(NodeKind kind) {
    switch (kind) {
      case NodeKind::kInput:
        out_ += "input";
        break;
      case NodeKind::kParam:
        out_ += "param";
        break;
      case NodeKind::kConst:
        out_ += "const";
        break;
      case NodeKind::kScalar:
        out_ += "scalar";
        break;
      case NodeKind::kOp:
        break;
    }
  }

  void write_operands(NodeId node) {
    using Position = Operand::Position;
    bool in_list = false;
    const char* separator = "";
    for (const Operand& operand : graph_.operands(node)) {
      if (in_list && operand.position != Position::kListNext) {
        out_ += ']';
        in_list = false;
      }
      out_ += separator;
      separator = ", ";
      if (operand.position == Position::kEmptyList) {
        out_ += "[]";
        continue;
      }
      if (operand.position == Position::kListFirst) {
        out_ += '[';
        in_list = true;
      }
      if (operand.tensor.valid()) {
        append_type(out_, graph_.type(operand.tensor));
      } else {
        out_ += "none";
      }
      if (operand.access == Access::kUpdate) out_ += '!';
    }
    if (in_list) out_ += ']';
  }

  // In the order of their keys: that of the text means nothing to the operation.
  void write_attributes(NodeId node) {
    std::vector<const Attribute*> sorted;
    for (const Attribute& attribute : graph_.attributes(node)) {
      const std::string_view key = graph_.text(attribute.key);
      if (!key.starts_with("ebb.") && !is_note(key)) sorted.push_back(&attribute);
    }
    std::sort(sorted.begin(), sorted.end(), [this](const Attribute* a, const Attribute* b) {
      return graph_.text(a->key) < graph_.text(b->key);
    });
    const char* separator = " {";
    for (const Attribute* attribute : sorted) {
      out_ += separator;
      separator = ", ";
      append_name(out_, graph_.text(attribute->key));
      out_ += attribute->is_list ? " = [" : " = ";
      write_values(graph_.items(*attribute));
      if (attribute->is_list) out_ += ']';
    }
    if (!sorted.empty()) out_ += '}';
  }

  void write_results(NodeId node) {
    const char* separator = " -> ";
    if (const ScalarId scalar = graph_.scalar_result(node); scalar.valid()) {
      out_ += separator;
      write_value(scalar);
    }
    for (const TensorId result : graph_.results(node)) {
      out_ += separator;
      separator = ", ";
      append_type(out_, graph_.type(result));
      write_sharing(node, result);
    }
  }

  // "~ 2 + 16B": in the bytes of operand 2, 16 bytes after its begin.
  void write_sharing(NodeId node, TensorId result) {
    const auto operands = graph_.operands(node);
    const auto shared = std::find_if(operands.begin(), operands.end(), [&](const Operand& operand) {
      return operand.tensor.valid() && graph_.storage(operand.tensor) == graph_.storage(result);
    });
    if (shared == operands.end()) return;
    fmt::format_to(std::back_inserter(out_), " ~ {} + {}B", shared - operands.begin(),
                   (graph_.offset(result) - graph_.offset(shared->tensor)).count);
  }

  void write_values(std::span<const Value> values) {
    const char* separator = "";
    for (const Value& value : values) {
      out_ += separator;
      separator = ", ";
      std::visit([this](const auto& v) { write_value(v); }, value);
    }
  }

  void write_value(std::monostate /*none*/) { out_ += "none"; }
  void write_value(bool value) { out_ += value ? "true" : "false"; }
  void write_value(std::int64_t value) { fmt::format_to(std::back_inserter(out_), "{}", value); }
  void write_value(double value) {
    if (std::isnan(value)) {
      out_ += "nan";  // without a sign, which fmt would show
    } else {
      fmt::format_to(std::back_inserter(out_), "{:#}", value);
    }
  }
  void write_value(DType value) { out_ += name(value); }
  void write_value(Text value) { append_quoted(out_, graph_.text(value.id)); }
  void write_value(Blob value) {
    out_ += "hex\"";
    for (const char c : graph_.text(value.id)) {
      fmt::format_to(std::back_inserter(out_), "{:02x}", static_cast<unsigned char>(c));
    }
    out_ += '"';
  }
  void write_value(ScalarId value) {
    out_ += '$';
    out_ += name(graph_.dtype(value));
  }

  const Graph& graph_;
  std::string out_;
};

}  // namespace

std::string signature(const Graph& graph, NodeId node) { return Writer(graph).write(node); }

}  // namespace ebb
