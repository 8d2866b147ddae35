// V12 to V15: who runs when.
#include "ebb/graph/dependence.h"
#include "ebb/graph/verify_checks.h"

namespace ebb {
namespace {

// The place of each node in line order.
std::vector<std::uint32_t> positions(const Graph& graph) {
  std::vector<std::uint32_t> position(graph.node_count());
  std::uint32_t next = 0;
  for (const NodeId node : graph.order()) position[node.index()] = next++;
  return position;
}

}  // namespace

void check_updates_are_totally_ordered(const Graph& graph, Findings& findings) {
  const Updates updates(graph);
  for (const NodeId node : graph.order()) {
    for (const Operand& operand : graph.operands(node)) {
      if (operand.access != Access::kUpdate) continue;
      const NodeId first =
          updates.updater(graph.storage(operand.tensor), graph.version(operand.tensor));
      if (first == node) continue;
      findings.add(node,
                   "'{}' and '{}' both update the same version of %{}; let '{}' update what "
                   "'{}' makes",
                   graph.name(first), graph.name(node),
                   graph.name(graph.root(graph.storage(operand.tensor))), graph.name(node),
                   graph.name(first));
    }
  }
}

void check_lines_stand_in_dependence_order(const Graph& graph, Findings& findings) {
  const std::vector<std::uint32_t> position = positions(graph);
  for (const NodeId node : graph.order()) {
    const auto wait_for = [&](NodeId other, auto what) {
      if (position[other.index()] < position[node.index()]) return;
      findings.add(node, "'{}' stands before '{}', {}; move it below", graph.name(node),
                   graph.name(other), what());
    };
    for (const Operand& operand : graph.operands(node)) {
      if (!operand.tensor.valid()) continue;
      wait_for(graph.producer(operand.tensor), [&] {
        return fmt::format("whose result %{} it reads", graph.name(operand.tensor));
      });
    }
    graph.for_each_scalar_read(node, [&](ScalarId scalar) {
      wait_for(graph.producer(scalar),
               [&] { return fmt::format("whose result ${} it reads", graph.name(scalar)); });
    });
    for (const NodeId control : graph.controls(node)) {
      wait_for(control, [] { return std::string("for which it waits"); });
    }
    if (findings.full()) break;
  }
  if (!findings.any()) return;
  // Moving lines helps only where there is no cycle.
  if (const auto cycle = find_cycle(Dependence(graph)); !cycle.empty()) {
    findings.clear();
    findings.add(cycle.front(), "the graph has a cycle: {}; no order of lines can run it",
                 describe_cycle(graph, cycle));
  }
}

void check_readers_precede_the_update(const Graph& graph, Findings& findings) {
  const Updates updates(graph);
  const std::vector<std::uint32_t> position = positions(graph);
  for (const NodeId node : graph.order()) {
    for (const Operand& operand : graph.operands(node)) {
      if (!operand.tensor.valid()) continue;
      const StorageId storage = graph.storage(operand.tensor);
      if (!updates.is_updated(storage)) continue;
      const NodeId updater = updates.updater(storage, graph.version(operand.tensor));
      if (!updater.valid() || updater == node) continue;
      if (position[node.index()] < position[updater.index()]) continue;
      findings.add(node,
                   "'{}' reads %{}, which '{}' has overwritten by then; read what '{}' makes, "
                   "or move '{}' above it",
                   graph.name(node), graph.name(operand.tensor), graph.name(updater),
                   graph.name(updater), graph.name(node));
    }
    if (findings.full()) return;
  }
}

void check_outputs_are_final(const Graph& graph, Findings& findings) {
  const Updates updates(graph);
  for (const TensorId output : graph.outputs()) {
    const NodeId updater = updates.updater(graph.storage(output), graph.version(output));
    if (!updater.valid()) continue;
    findings.add(updater, "the graph returns %{}, which '{}' overwrites; return what '{}' makes",
                 graph.name(output), graph.name(updater), graph.name(updater));
  }
}

}  // namespace ebb
