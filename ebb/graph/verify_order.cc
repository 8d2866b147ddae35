// V13 to V17: who runs when.
#include "ebb/graph/dependence.h"
#include "ebb/graph/verify_checks.h"
#include "ebb/graph/versions.h"

namespace ebb {
namespace {

// The place of each node in line order.
std::vector<std::uint32_t> positions(const Graph& graph) {
  std::vector<std::uint32_t> position(graph.node_count());
  std::uint32_t next = 0;
  for (const NodeId node : graph.order()) position[node.index()] = next++;
  return position;
}

// Moving lines helps only where there is no cycle; if there is one, it is what to tell of.
void prefer_cycle(const Graph& graph, Findings& findings) {
  const auto cycle = find_cycle(Dependence(graph));
  if (cycle.empty()) return;
  findings.clear();
  findings.add(cycle.front(), "the graph has a cycle: {}; no order of lines can run it",
               describe_cycle(graph, cycle));
}

}  // namespace

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
    for (const TensorId result : graph.results(node)) {
      const TensorId root = graph.root(graph.storage(result));
      if (root == result) continue;
      wait_for(graph.producer(root), [] { return std::string("whose bytes it shares"); });
    }
    if (findings.full()) break;
  }
  if (findings.any()) prefer_cycle(graph, findings);
}

void check_versions_follow_the_operands(const Graph& graph, Findings& findings) {
  const std::vector<std::uint32_t> versions = derive_versions(graph);
  for (const TensorId tensor : graph.tensors()) {
    const std::uint32_t expected = versions[tensor.index()];
    if (graph.version(tensor) == expected) continue;
    findings.add(graph.producer(tensor),
                 "%{} is kept as version {} of %{}, but by the operands of '{}' it is version {}",
                 graph.name(tensor), graph.version(tensor),
                 graph.name(graph.root(graph.storage(tensor))), graph.name(graph.producer(tensor)),
                 expected);
  }
}

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
                   "'{}' makes, or a view of it",
                   graph.name(first), graph.name(node),
                   graph.name(graph.root(graph.storage(operand.tensor))), graph.name(node),
                   graph.name(first));
    }
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
    if (findings.full()) break;
  }
  if (findings.any()) prefer_cycle(graph, findings);
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
