// V01 to V06: the graph holds together at all.
#include <algorithm>

#include "ebb/base/nearest.h"
#include "ebb/base/utf8.h"
#include "ebb/graph/print.h"
#include "ebb/graph/scalar_op.h"
#include "ebb/graph/verify_checks.h"

namespace ebb {

void check_ids_are_in_range(const Graph& graph, Findings& findings) {
  const auto good = [](auto id, std::size_t count) { return id.index() < count; };
  const auto good_value = [&](const Value& value) {
    const auto* scalar = std::get_if<ScalarId>(&value);
    return scalar == nullptr || good(*scalar, graph.scalar_count());
  };
  for (const NodeId node : graph.nodes()) {
    for (const Operand& operand : graph.operands(node)) {
      if (operand.tensor.valid() && !good(operand.tensor, graph.tensor_count())) {
        findings.add(node, "'{}' reads tensor number {}, of {}", graph.name(node),
                     operand.tensor.index(), graph.tensor_count());
      }
    }
    for (const NodeId control : graph.controls(node)) {
      if (!good(control, graph.node_count())) {
        findings.add(node, "'{}' waits for node number {}, of {}", graph.name(node),
                     control.index(), graph.node_count());
      }
    }
    if (graph.clone_of(node).valid() && !good(graph.clone_of(node), graph.node_count())) {
      findings.add(node, "'{}' is a clone of node number {}, of {}", graph.name(node),
                   graph.clone_of(node).index(), graph.node_count());
    }
    if (graph.scope(node).valid() && !good(graph.scope(node), graph.scope_count())) {
      findings.add(node, "'{}' stands in scope number {}, of {}", graph.name(node),
                   graph.scope(node).index(), graph.scope_count());
    }
    const auto arguments = graph.scalar_arguments(node);
    bool good_scalars = std::all_of(arguments.begin(), arguments.end(), good_value);
    for (const Attribute& attribute : graph.attributes(node)) {
      const auto items = graph.items(attribute);
      good_scalars = good_scalars && std::all_of(items.begin(), items.end(), good_value);
    }
    if (!good_scalars) {
      findings.add(node, "'{}' uses a scalar that is not among the graph's {}", graph.name(node),
                   graph.scalar_count());
    }
    if (findings.full()) return;
  }
  for (const ScopeId scope : graph.scopes()) {
    const ScopeId parent = graph[scope].parent;
    if (parent.valid() && parent.index() >= scope.index()) {
      findings.add(NodeId(), "scope '{}' stands in scope number {}, which is not before it",
                   graph.name(scope), parent.index());
    }
  }
  for (const TensorId output : graph.outputs()) {
    if (!good(output, graph.tensor_count())) {
      findings.add(NodeId(), "the graph returns tensor number {}, of {}", output.index(),
                   graph.tensor_count());
    }
  }
}

void check_names_are_unique(const Graph& graph, Findings& findings) {
  const auto check_text = [&](NodeId node, std::string_view name, const char* what) {
    if (name.empty()) findings.add(node, "a {} has no name", what);
    if (!is_utf8(name)) findings.add(node, "the name of a {} is not UTF-8", what);
  };
  for (const NodeId node : graph.nodes()) {
    const std::string_view name = graph.name(node);
    check_text(node, name, "node");
    if (graph.find_node(name) != node) {
      const NodeId other = graph.find_node(name);
      findings.add(node, "two things are named '{}'{}", name,
                   other.valid() ? ": " + print(graph, other) + " and " + print(graph, node) : "");
    }
    for (const TensorId result : graph.results(node)) {
      check_text(node, graph.name(result), "tensor");
      if (graph.find_tensor(graph.name(result)) != result) {
        findings.add(node, "two things are named '{}', one of them a result of '{}'",
                     graph.name(result), name);
      }
    }
    if (findings.full()) return;
  }
}

void check_types_are_sound(const Graph& graph, Findings& findings) {
  std::vector<bool> seen;  // by type: most tensors share one with another
  for (const TensorId tensor : graph.tensors()) {
    const std::uint32_t type = graph.type_id(tensor).index();
    if (type < seen.size() && seen[type]) continue;
    if (type >= seen.size()) seen.resize(type + 1);
    seen[type] = true;
    if (const auto wrong = defect(graph.type(tensor))) {
      findings.add(graph.producer(tensor), "the type of %{} {}", graph.name(tensor), *wrong);
    }
  }
}

// So that whoever comes later may add sizes and durations without looking: their sums stay below
// 2^62, and even a sum of two such sums fits.
void check_sizes_add_up(const Graph& graph, Findings& findings) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62U;
  std::int64_t bytes = 0;
  std::int64_t nanoseconds = 0;
  const auto add = [&](std::int64_t& sum, std::int64_t more, NodeId node, const char* what) {
    if (more < 0) {
      findings.add(node, "'{}' has a negative number of {}", graph.name(node), what);
    } else if (sum > kLimit - more) {
      findings.add(node, "up to '{}', the {} of this graph add up to more than 2^62",
                   graph.name(node), what);
    } else {
      sum += more;
    }
  };
  for (const StorageId storage : graph.storages()) {
    const auto size = graph.size(storage);
    add(bytes, size ? size->count : 0, graph.producer(graph.root(storage)), "bytes");
    if (findings.full()) return;
  }
  for (const NodeId node : graph.nodes()) {
    add(bytes, graph.workspace(node).count, node, "bytes");
    if (const auto takes = graph.takes(node)) {
      add(nanoseconds, takes->count(), node, "nanoseconds");
    }
    if (findings.full()) return;
  }
}

void check_nodes_have_the_parts_of_their_kind(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    const std::size_t results = graph.results(node).size();
    const bool makes_scalar = graph.scalar_result(node).valid();
    if (results > 0 && makes_scalar) {
      findings.add(node, "'{}' makes both tensors and a scalar", graph.name(node));
    }
    if (graph.is_op(node)) {
      if (graph.op(node).empty()) findings.add(node, "'{}' has no operator", graph.name(node));
      continue;
    }
    if (!graph.operands(node).empty() || !graph.scalar_arguments(node).empty()) {
      findings.add(node, "'{}' is given from outside and reads nothing", graph.name(node));
    }
    const bool is_scalar = graph.kind(node) == NodeKind::kScalar;
    if (is_scalar ? !makes_scalar || results > 0 : results != 1) {
      findings.add(node, "'{}' is given from outside and is exactly one {}", graph.name(node),
                   is_scalar ? "scalar" : "tensor");
    }
  }
}

void check_host_arithmetic_is_known(const Graph& graph, Findings& findings) {
  for (const NodeId node : graph.nodes()) {
    const std::string_view op = graph.op(node);
    if (!is_host_arithmetic(op)) {
      if (!graph.scalar_arguments(node).empty()) {
        findings.add(node, "'{}' has scalar arguments, but {} is no host arithmetic",
                     graph.name(node), op);
      }
      continue;
    }
    const ScalarOp* known = find_scalar_op(op);
    if (known == nullptr) {
      NearestWord nearest(op);
      for (const ScalarOp& candidate : scalar_ops()) nearest.offer(candidate.name);
      findings.add(node, "'{}': there is no host arithmetic {}{}", graph.name(node), op,
                   nearest.word().empty() ? "" : fmt::format("; did you mean {}?", nearest.word()));
      continue;
    }
    const auto arguments = graph.scalar_arguments(node);
    if (arguments.size() != known->arity) {
      findings.add(node, "'{}': {} takes {} arguments, not {}", graph.name(node), op, known->arity,
                   arguments.size());
    }
    for (const Value& argument : arguments) {
      const bool number = std::holds_alternative<bool>(argument) ||
                          std::holds_alternative<std::int64_t>(argument) ||
                          std::holds_alternative<double>(argument) ||
                          std::holds_alternative<ScalarId>(argument);
      if (!number) {
        findings.add(node, "'{}': {} takes numbers and scalars only", graph.name(node), op);
      }
    }
    if (!graph.scalar_result(node).valid() || !graph.operands(node).empty()) {
      findings.add(node, "'{}': {} makes a scalar from scalars, no tensors", graph.name(node), op);
    }
  }
}

}  // namespace ebb
