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
  for (const TensorId tensor : graph.tensors()) {
    if (!good(graph.type_id(tensor), graph.type_count())) {
      findings.add(graph.producer(tensor), "%{} has type number {}, of {}", graph.name(tensor),
                   graph.type_id(tensor).index(), graph.type_count());
    }
  }
  for (const ScopeId scope : graph.scopes()) {
    const ScopeId parent = graph.parent(scope);
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

namespace {

void check_text(const Graph& graph, NodeId node, std::string_view text, const char* what,
                Findings& findings) {
  if (!is_utf8(text)) {
    findings.add(node, "a text of '{}' is not UTF-8: {}", graph.name(node), what);
  }
}

// Everything the text form spells without quoting rules for bytes.
void check_texts_of(const Graph& graph, NodeId node, Findings& findings) {
  check_text(graph, node, graph.name(node), "its name", findings);
  check_text(graph, node, graph.op(node), "its operator", findings);
  check_text(graph, node, graph.device(node), "its device", findings);
  for (const Attribute& attribute : graph.attributes(node)) {
    check_text(graph, node, graph.text(attribute.key), "an attribute's name", findings);
    if (graph.text(attribute.key).empty()) {
      findings.add(node, "an attribute of '{}' has no name", graph.name(node));
    }
    for (const Value& value : graph.items(attribute)) {
      if (const auto* text = std::get_if<Text>(&value)) {
        check_text(graph, node, graph.text(text->id), "a string; bytes are kept as a Blob",
                   findings);
      }
    }
  }
}

}  // namespace

void check_names_are_unique(const Graph& graph, Findings& findings) {
  if (graph.name().empty() || !is_utf8(graph.name())) {
    findings.add(NodeId(), "the graph's name is {}", graph.name().empty() ? "empty" : "not UTF-8");
  }
  for (const ScopeId scope : graph.scopes()) {
    const std::string_view name = graph.name(scope);
    if (name.empty() || !is_utf8(name) || graph.find_scope(name) != scope) {
      findings.add(NodeId(), "a scope's name, '{}', is {}", name,
                   name.empty()    ? "empty"
                   : is_utf8(name) ? "another scope's too"
                                   : "not UTF-8");
    }
  }
  for (const NodeId node : graph.nodes()) {
    check_texts_of(graph, node, findings);
    const std::string_view name = graph.name(node);
    if (name.empty()) {
      findings.add(node, "a node has no name");
    } else if (graph.find_node(name) != node) {
      const NodeId other = graph.find_node(name);
      findings.add(node, "two things are named '{}'{}", name,
                   other.valid() ? ": " + print(graph, other) + " and " + print(graph, node) : "");
    }
    for (const TensorId result : graph.results(node)) {
      if (!is_utf8(graph.name(result)) || graph.name(result).empty()) {
        findings.add(node, "the name of a tensor is {}",
                     graph.name(result).empty() ? "empty" : "not UTF-8");
      } else if (graph.find_tensor(graph.name(result)) != result) {
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

namespace {

void check_attribute_keys(const Graph& graph, NodeId node, Findings& findings) {
  std::vector<SymbolId> keys;
  for (const Attribute& attribute : graph.attributes(node)) keys.push_back(attribute.key);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) {
    findings.add(node, "'{}' has the attribute '{}' twice", graph.name(node), graph.text(*twice));
  }
}

void check_operand_lists(const Graph& graph, NodeId node, Findings& findings) {
  using Position = Operand::Position;
  bool in_list = false;
  for (const Operand& operand : graph.operands(node)) {
    const bool stray = operand.position == Position::kListNext && !in_list;
    const bool filled = operand.position == Position::kEmptyList && operand.tensor.valid();
    if (stray || filled) {
      findings.add(node, "the operand lists of '{}' are broken: {}", graph.name(node),
                   stray ? "a list goes on that never began" : "an empty list has a tensor");
      return;
    }
    in_list = operand.position == Position::kListFirst || operand.position == Position::kListNext;
  }
}

// A node is named by its first result; only one without any has a label.
void check_node_name(const Graph& graph, NodeId node, Findings& findings) {
  const ScalarId scalar = graph.scalar_result(node);
  const std::string_view first = scalar.valid()                 ? graph.name(scalar)
                                 : !graph.results(node).empty() ? graph.name(graph.results(node)[0])
                                                                : graph.name(node);
  if (first != graph.name(node)) {
    findings.add(node, "a node is named '{}', but its first result '{}'", graph.name(node), first);
  }
}

}  // namespace

void check_nodes_have_the_parts_of_their_kind(const Graph& graph, Findings& findings) {
  for (const ScalarId scalar : graph.scalars()) {
    const NodeId maker = graph.producer(scalar);
    if (!is_scalar_dtype(graph.dtype(scalar))) {
      findings.add(maker, "${} is {}; a scalar is f64, i64 or bool", graph.name(scalar),
                   name(graph.dtype(scalar)));
    }
    if (graph.scalar_result(maker) != scalar) {
      findings.add(maker, "'{}' makes more than one scalar", graph.name(maker));
    }
  }
  for (const NodeId node : graph.nodes()) {
    check_attribute_keys(graph, node, findings);
    check_operand_lists(graph, node, findings);
    const std::size_t results = graph.results(node).size();
    const bool makes_scalar = graph.scalar_result(node).valid();
    if (results > 0 && makes_scalar) {
      findings.add(node, "'{}' makes both tensors and a scalar", graph.name(node));
      continue;
    }
    check_node_name(graph, node, findings);
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
