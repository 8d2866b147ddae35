#include "ebb/graph/print.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/scalar_op.h"
#include "ebb/graph/text_names.h"

namespace ebb {
namespace {

class Printer {
 public:
  explicit Printer(const Graph& graph, const PrintOptions& options = {})
      : graph_(graph), options_(options) {}

  std::string whole() {
    out_.reserve(128 * graph_.node_count());
    out_ += "graph ";
    append_name(out_, graph_.name());
    out_ += " {\n";
    for (const ScopeId scope : graph_.scopes()) print_scope(scope);
    for (const NodeId node : graph_.order()) {
      out_ += "  ";
      print_node(node);
      out_ += '\n';
    }
    out_ += "  return";
    const char* separator = " ";
    for (const TensorId output : graph_.outputs()) {
      out_ += separator;
      print_ref(output);
      separator = ", ";
    }
    out_ += "\n}\n";
    return std::move(out_);
  }

  std::string one(NodeId node) {
    print_node(node);
    return std::move(out_);
  }

 private:
  void print_number(std::int64_t number) {
    const fmt::format_int digits(number);
    out_.append(digits.data(), digits.size());
  }

  void print_ref(TensorId tensor) {
    out_ += '%';
    append_name(out_, graph_.name(tensor));
  }

  void print_scope(ScopeId scope) {
    out_ += graph_.kind(scope) == ScopeKind::kFrame ? "  frame " : "  branch ";
    append_name(out_, graph_.name(scope));
    if (const ScopeId parent = graph_.parent(scope); parent.valid()) {
      out_ += " in ";
      append_name(out_, graph_.name(parent));
    }
    out_ += '\n';
  }

  void print_node(NodeId node) {
    switch (graph_.kind(node)) {
      case NodeKind::kInput:
        out_ += "input ";
        break;
      case NodeKind::kParam:
        out_ += "param ";
        break;
      case NodeKind::kConst:
        out_ += "const ";
        break;
      case NodeKind::kScalar:
        out_ += "scalar ";
        break;
      case NodeKind::kOp:
        break;
    }
    print_results(node);
    if (graph_.is_op(node)) print_call(node);
    print_attributes(node);
    print_clauses(node);
  }

  void print_results(NodeId node) {
    const char* end = graph_.is_op(node) ? " = " : "";
    if (const ScalarId scalar = graph_.scalar_result(node); scalar.valid()) {
      out_ += '$';
      append_name(out_, graph_.name(scalar));
      out_ += ": ";
      out_ += name(graph_.dtype(scalar));
    } else if (graph_.results(node).empty()) {
      append_label(out_, graph_.name(node));
      end = ": ";
    } else {
      const char* separator = "";
      for (const TensorId result : graph_.results(node)) {
        out_ += separator;
        print_result(result);
        separator = ", ";
      }
    }
    out_ += end;
  }

  void print_result(TensorId result) {
    print_ref(result);
    out_ += ": ";
    append_type(out_, graph_.type(result));
    const TensorId root = graph_.root(graph_.storage(result));
    if (root == result) return;
    out_ += " ~ ";
    print_ref(root);
    if (graph_.offset(result).count != 0) {
      out_ += " + ";
      out_ += to_text(graph_.offset(result));
    }
  }

  void print_call(NodeId node) {
    append_op(out_, graph_.op(node));
    out_ += '(';
    if (is_host_arithmetic(graph_.op(node))) {
      print_values(graph_.scalar_arguments(node));
    } else {
      print_operands(graph_.operands(node));
    }
    out_ += ')';
  }

  void print_operands(std::span<const Operand> operands) {
    using Position = Operand::Position;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Operand& operand = operands[i];
      if (i > 0) out_ += ", ";
      if (operand.position == Position::kEmptyList) {
        out_ += "[]";
        continue;
      }
      if (operand.position == Position::kListFirst) out_ += '[';
      if (operand.tensor.valid()) {
        print_ref(operand.tensor);
        if (operand.access == Access::kUpdate) out_ += '!';
      } else {
        out_ += "none";
      }
      const bool in_list = operand.position != Position::kAlone;
      const bool list_goes_on =
          i + 1 < operands.size() && operands[i + 1].position == Position::kListNext;
      if (in_list && !list_goes_on) out_ += ']';
    }
  }

  void print_attributes(NodeId node) {
    const char* separator = " {";
    const char* end = "";
    for (const Attribute& attribute : graph_.attributes(node)) {
      if (!options_.notes && is_note(graph_.text(attribute.key))) continue;
      out_ += separator;
      append_name(out_, graph_.text(attribute.key));
      out_ += " = ";
      if (attribute.is_list) out_ += '[';
      print_values(graph_.items(attribute));
      if (attribute.is_list) out_ += ']';
      separator = ", ";
      end = "}";
    }
    out_ += end;
  }

  void print_values(std::span<const Value> values) {
    const char* separator = "";
    for (const Value& value : values) {
      out_ += separator;
      std::visit([this](const auto& v) { print_value(v); }, value);
      separator = ", ";
    }
  }

  void print_value(std::monostate /*none*/) { out_ += "none"; }
  void print_value(bool value) { out_ += value ? "true" : "false"; }
  void print_value(std::int64_t value) { print_number(value); }
  void print_value(double value) {
    if (std::isnan(value)) {
      out_ += "nan";
      return;
    }
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    const std::string_view digits(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    out_ += digits;
    // A float looks like one: 1.0, not 1.
    if (digits.find_first_of(".ein") == std::string_view::npos) out_ += ".0";
  }
  void print_value(DType value) { out_ += name(value); }
  void print_value(Text value) { append_quoted(out_, graph_.text(value.id)); }
  void print_value(Blob value) {
    constexpr std::string_view kHex = "0123456789abcdef";
    out_ += "hex\"";
    for (const char c : graph_.text(value.id)) {
      const auto byte = static_cast<unsigned char>(c);
      out_ += kHex[byte >> 4U];
      out_ += kHex[byte & 0xFU];
    }
    out_ += '"';
  }
  void print_value(ScalarId value) {
    out_ += '$';
    append_name(out_, graph_.name(value));
  }

  void print_clauses(NodeId node) {
    switch (graph_.effect(node)) {
      case Effect::kPure:
        break;
      case Effect::kRandom:
        out_ += " random";
        break;
      case Effect::kEffect:
        out_ += " effect";
        break;
    }
    if (const NodeId original = graph_.clone_of(node); original.valid()) {
      out_ += " clone of ";
      append_name(out_, graph_.name(original));
    }
    if (const ScopeId scope = graph_.scope(node); scope.valid()) {
      out_ += " in ";
      append_name(out_, graph_.name(scope));
    }
    if (const auto device = graph_.device(node); !device.empty()) {
      out_ += " @";
      append_quoted(out_, device);
    }
    const char* separator = " after ";
    for (const NodeId control : graph_.controls(node)) {
      out_ += separator;
      append_name(out_, graph_.name(control));
      separator = ", ";
    }
    if (const auto takes = graph_.takes(node)) {
      out_ += " takes ";
      out_ += to_text(*takes);
    }
    if (graph_.workspace(node).count != 0) {
      out_ += " workspace ";
      out_ += to_text(graph_.workspace(node));
    }
  }

  const Graph& graph_;
  const PrintOptions options_;
  std::string out_;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  return Printer(graph, options).whole();
}

std::string print(const Graph& graph, NodeId node) { return Printer(graph).one(node); }

}  // namespace ebb
