#include "ebb/rewrite/lms_graph.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <ranges>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/views.h"
#include "ebb/rewrite/lms_names.h"

namespace ebb {
namespace {

// Frameworks whose variables are handles update them by an effect that makes nothing, or the handle
// again; what makes tensors from a handle is a reader.
bool updates_handle(const Graph& graph, NodeId node) {
  if (graph.effect(node) != Effect::kEffect) return false;
  const auto is_handle = [&](TensorId tensor) {
    return tensor.valid() && graph.type(tensor).dtype == DType::kResource;
  };
  const auto operands = graph.operands(node);
  const auto results = graph.results(node);
  return std::any_of(operands.begin(), operands.end(),
                     [&](const Operand& operand) { return is_handle(operand.tensor); }) &&
         std::all_of(results.begin(), results.end(), is_handle);
}

bool updates_variable(const Graph& graph, NodeId node) {
  const auto operands = graph.operands(node);
  return std::any_of(operands.begin(), operands.end(),
                     [&](const Operand& operand) {
                       return operand.access == Access::kUpdate &&
                              graph.is_variable(operand.tensor);
                     }) ||
         updates_handle(graph, node);
}

// A variable is none, though it was updated by one: the next step's forward phase reads it. Nor is
// a constant or a shape, which optimizers share between the phases whatever its name says.
bool may_be_gradient(const Graph& graph, TensorId tensor) {
  const NodeId maker = graph.producer(tensor);
  const bool is_constant = graph.operands(maker).empty() && graph.effect(maker) == Effect::kPure;
  return !graph.is_variable(tensor) && !is_constant &&
         graph.type(tensor).residence == Residence::kDevice;
}

std::vector<LmsPhase> find_phases(const Graph& graph, const std::vector<bool>& is_inside) {
  std::vector<LmsPhase> phases(graph.node_count(), LmsPhase::kForward);
  std::vector<bool> is_late(graph.node_count());  // an update under the scopes, or waits for one
  for (const NodeId node : graph.order()) {
    if (!graph.is_op(node)) continue;
    const bool inside = is_inside[node.index()];
    bool late = inside && updates_variable(graph, node);
    bool reads_gradient = false;
    for (const Operand& operand : graph.operands(node)) {
      if (!operand.tensor.valid()) continue;
      const NodeId producer = graph.producer(operand.tensor);
      late = late || is_late[producer.index()];
      reads_gradient = reads_gradient || (phases[producer.index()] != LmsPhase::kForward &&
                                          may_be_gradient(graph, operand.tensor));
    }
    for (const NodeId control : graph.controls(node)) late = late || is_late[control.index()];
    is_late[node.index()] = late;
    LmsPhase& phase = phases[node.index()];
    if (inside) {
      phase = late ? LmsPhase::kOther : LmsPhase::kBackward;
    } else if (reads_gradient) {
      phase = LmsPhase::kOther;
    }
  }
  return phases;
}

// A clone outside the scopes computes for the backward phase if a backward operation reads it, or
// if it waits for one. Whether there are such clones; these are inside then.
bool add_backward_clones(const Graph& graph, const std::vector<LmsPhase>& phases,
                         std::vector<bool>& is_inside) {
  bool added = false;
  std::vector<bool> serves(graph.node_count());  // a backward operation reads what it made
  for (const NodeId node : graph.order() | std::views::reverse) {
    const auto controls = graph.controls(node);
    const bool is_backward_clone =
        graph.clone_of(node).valid() &&
        (serves[node.index()] || std::any_of(controls.begin(), controls.end(), [&](NodeId control) {
           return phases[control.index()] == LmsPhase::kBackward;
         }));
    if (is_backward_clone) is_inside[node.index()] = added = true;
    if (!is_backward_clone && phases[node.index()] != LmsPhase::kBackward) continue;
    for (const Operand& operand : graph.operands(node)) {
      if (operand.tensor.valid()) serves[graph.producer(operand.tensor).index()] = true;
    }
  }
  return added;
}

// TensorFlow's layout optimizer names a transposition after one of its readers. When the first
// convolution and its gradient share one, it bears a gradient's name and is none. What it reads
// says which phase it is of.
void take_out_shared_layouts(const Graph& graph, std::vector<bool>& is_inside) {
  for (const NodeId node : graph.order()) {
    if (is_inside[node.index()]) continue;
    for (const Operand& operand : graph.operands(node)) {
      if (!operand.tensor.valid()) continue;
      const NodeId producer = graph.producer(operand.tensor);
      if (graph.name(producer).ends_with("-LayoutOptimizer")) is_inside[producer.index()] = false;
    }
  }
}

}  // namespace

std::vector<LmsPhase> find_phases(const Graph& graph, std::span<const std::string> scopes) {
  std::vector<bool> is_inside(graph.node_count());
  bool has_clones = false;
  for (const NodeId node : graph.order()) {
    if (!graph.is_op(node)) continue;
    const std::string_view name = graph.name(node);
    is_inside[node.index()] = scopes.empty() ? in_gradient_scope(name) : in_any_scope(name, scopes);
    has_clones = has_clones || graph.clone_of(node).valid();
  }
  take_out_shared_layouts(graph, is_inside);
  std::vector<LmsPhase> phases = find_phases(graph, is_inside);
  if (!has_clones || !add_backward_clones(graph, phases, is_inside)) return phases;
  return find_phases(graph, is_inside);
}

bool assigns_variable(const Graph& graph, NodeId node) {
  constexpr std::array<std::string_view, 4> kAssignments = {"ebb::assign", "aten::copy_", "Assign",
                                                            "AssignVariableOp"};
  return updates_variable(graph, node) &&
         std::any_of(kAssignments.begin(), kAssignments.end(),
                     [&](std::string_view type) { return is_of_type(graph.op(node), type); });
}

LmsEdges::LmsEdges(const Graph& graph)
    : graph_(graph), positions_(graph.node_count()), starts_(graph.storage_count() + 1) {
  std::vector<NodeId> last_reader(graph.storage_count());
  const auto for_each_edge = [&](auto visit) {
    std::fill(last_reader.begin(), last_reader.end(), NodeId());
    for (const NodeId node : graph.order()) {
      if (makes_only_views(graph, node)) continue;
      for (const Operand& operand : graph.operands(node)) {
        if (!operand.tensor.valid()) continue;
        const StorageId storage = graph.storage(operand.tensor);
        if (last_reader[storage.index()] == node) continue;
        const NodeKind origin = graph.origin(storage);
        if (origin != NodeKind::kOp && origin != NodeKind::kInput) continue;
        last_reader[storage.index()] = node;
        visit(storage, node);
      }
    }
  };
  std::uint32_t position = 0;
  for (const NodeId node : graph.order()) positions_[node.index()] = position++;
  for_each_edge([&](StorageId storage, NodeId) { ++starts_[storage.index() + 1]; });
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  readers_.resize(starts_.back());
  std::vector<std::uint32_t> next(starts_.begin(), starts_.end() - 1);
  for_each_edge([&](StorageId storage, NodeId node) { readers_[next[storage.index()]++] = node; });
}

void LmsEdges::find_successors(NodeId node, std::vector<NodeId>& out) const {
  out.clear();
  for (const TensorId result : graph_.results(node)) {
    const auto more = readers(graph_.storage(result));
    out.insert(out.end(), more.begin(), more.end());
  }
  if (graph_.results(node).size() < 2) return;
  std::sort(out.begin(), out.end(),
            [this](NodeId a, NodeId b) { return position(a) < position(b); });
  out.erase(std::unique(out.begin(), out.end()), out.end());
}

}  // namespace ebb
