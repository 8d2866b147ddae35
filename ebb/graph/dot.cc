#include "ebb/graph/dot.h"

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"

namespace ebb {
namespace {

// Text inside a quoted dot string.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

std::string_view style(const Graph& graph, NodeId node) {
  const std::string_view op = graph.op(node);
  if (op == kSwapOut || op == kSwapIn) {
    return "shape=box, style=\"rounded,filled\", fillcolor=\"#cfe8ff\"";
  }
  if (graph.clone_of(node).valid()) return "shape=box, style=\"rounded,dashed\"";
  switch (graph.kind(node)) {
    case NodeKind::kOp:
      return "shape=box, style=rounded";
    case NodeKind::kScalar:
      return "shape=plaintext";
    default:
      return "shape=ellipse, peripheries=2";
  }
}

void append_node(std::string& out, const Graph& graph, NodeId node) {
  const std::string_view op = graph.op(node);
  const std::string name = escaped(graph.name(node));
  const std::string label = op.empty() ? name : fmt::format("{}\\n{}", name, escaped(op));
  out += fmt::format("  n{} [label=\"{}\", {}];\n", node.index(), label, style(graph, node));
}

void append_edges(std::string& out, const Graph& graph, NodeId node) {
  const auto edge = [&](NodeId from, std::string_view label, std::string_view look) {
    out += fmt::format("  n{} -> n{} [label=\"{}\"{}];\n", from.index(), node.index(),
                       escaped(label), look);
  };
  for (const Operand& operand : graph.operands(node)) {
    if (!operand.tensor.valid()) continue;
    edge(graph.producer(operand.tensor), fmt::format("%{}", graph.name(operand.tensor)),
         operand.access == Access::kUpdate ? ", style=dotted" : "");
  }
  graph.for_each_scalar_read(node, [&](ScalarId scalar) {
    edge(graph.producer(scalar), fmt::format("${}", graph.name(scalar)), ", color=gray");
  });
  for (const NodeId control : graph.controls(node)) edge(control, "", ", style=dashed");
}

}  // namespace

std::string to_dot(const Graph& graph) {
  std::string out = fmt::format(
      "digraph \"{}\" {{\n  node [fontname=\"sans-serif\", fontsize=11];\n"
      "  edge [fontname=\"sans-serif\", fontsize=9];\n",
      escaped(graph.name()));
  for (const NodeId node : graph.order()) append_node(out, graph, node);
  for (const NodeId node : graph.order()) append_edges(out, graph, node);
  return out + "}\n";
}

}  // namespace ebb
