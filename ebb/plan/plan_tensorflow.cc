#include "ebb/plan/plan_tensorflow.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ebb/graph/dtype.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/text_names.h"
#include "ebb/import/complete_shapes.h"
#include "ebb/import/graphdef_notes.h"
#include "ebb/import/tensorflow_device.h"
#include "ebb/order/frugal_order.h"
#include "ebb/plan/budget.h"
#include "ebb/plan/restarts.h"

namespace ebb {
namespace {

// In the words of someone who has a model, not a graph.
Status check_sizes(const Graph& graph, bool has_batch_size) {
  for (const StorageId storage : graph.storages()) {
    const TensorType& type = graph.type(graph.root(storage));
    if (graph.residence(storage) == Residence::kHost || graph.size(storage)) continue;
    if (element_size(type.dtype) == 0) continue;
    return fail(
        ErrorKind::kBadInput,
        fmt::format("the size of %{} is not known ({}), and a budget is planned with sizes; {}",
                    spelled(graph.name(graph.root(storage))), to_text(type),
                    has_batch_size ? "give the model's inputs fixed shapes, and leave out a last "
                                     "batch that is smaller (drop_remainder=True)"
                                   : "give the batch size (batch_size, --batch-size)"));
  }
  return {};
}

// A budget is of one device's memory. What has no device is put where its neighbours are.
Status check_one_accelerator(const Graph& graph) {
  std::set<std::string> devices;
  for (const NodeId node : graph.order()) {
    if (!graph.is_op(node) || graph.runs_on_host(node) || graph.results(node).empty()) continue;
    const DeviceName device = read_device(graph.device(node));
    if (!device.number.empty()) devices.insert(fmt::format("{}:{}", device.type, device.number));
  }
  if (devices.size() < 2) return {};
  return fail(ErrorKind::kBadInput,
              fmt::format("the step is on {} accelerators, {} and {} among them, and a budget is "
                          "planned for one; name one of them as the accelerator",
                          devices.size(), printable(*devices.begin()),
                          printable(*std::next(devices.begin()))));
}

// Nodes are written where they stood; only lines were put into another order.
void keep_places_in_file(Graph& graph, const Graph& imported) {
  GraphEdit edit(graph);
  std::int64_t place = 0;
  for (const NodeId node : imported.order()) {
    if (imported.find_attribute(node, kFilePosition) != nullptr) return;  // all nodes have it
    const Value value(place++);
    edit.add_attribute(node, edit.intern(kFilePosition), false, {&value, 1});
  }
}

}  // namespace

Result<std::vector<TensorId>> empty_without_rank(Graph& graph) {
  std::vector<TensorId> unranked = empty_unranked(graph);
  std::erase_if(unranked, [&](TensorId tensor) {
    return graph.type(tensor).residence != Residence::kDevice;
  });
  std::size_t made = 0;
  for (const StorageId storage : graph.storages()) {
    const TensorType& type = graph.type(graph.root(storage));
    const bool is_on_device = type.residence == Residence::kDevice && element_size(type.dtype) > 0;
    if (is_on_device && graph.origin(storage) == NodeKind::kOp) ++made;
  }
  const auto of_these = std::count_if(unranked.begin(), unranked.end(), [&](TensorId tensor) {
    const StorageId storage = graph.storage(tensor);
    return graph.root(storage) == tensor && graph.origin(storage) == NodeKind::kOp;
  });
  if (2 * static_cast<std::size_t>(of_these) <= made) return unranked;
  return fail(ErrorKind::kBadInput,
              fmt::format("of most tensors not even the rank is known, of %{} for one, and without "
                          "sizes nothing can be said of memory; a model needs inputs of fixed "
                          "shapes, and a file its shapes: graph.as_graph_def(add_shapes=True)",
                          spelled(graph.name(unranked.front()))));
}

Result<TensorFlowPlanned> plan_for_tensorflow(const Graph& imported, const Device& device,
                                              const TensorFlowBudget& budget) {
  TensorFlowPlanned out;
  out.graph = imported;
  if (budget.batch_size) complete_shapes(out.graph, *budget.batch_size);
  auto unranked = empty_without_rank(out.graph);
  if (!unranked) return fail(unranked.error());
  out.unranked = *std::move(unranked);
  if (Status ok = check_sizes(out.graph, budget.batch_size.has_value()); !ok)
    return fail(ok.error());
  if (Status ok = check_one_accelerator(out.graph); !ok) return fail(ok.error());
  GraphEdit(out.graph).set_order(find_frugal_order(out.graph));

  PlanOptions options = budget.plan;
  options.clock = budget.clock;
  const auto unconstrained = unconstrained_bytes(out.graph, device, options);
  if (!unconstrained) return fail(unconstrained.error());
  const auto bytes = parse_budget(budget.budget, *unconstrained);
  if (!bytes) return fail(bytes.error());
  options.budget = *bytes;
  auto planned = make_fastest_plan(out.graph, device, options);
  if (!planned) return fail(planned.error());
  out.planned = *std::move(planned);
  if (!out.planned.plan) return out;
  out.rewritten = out.planned.plan->graph;
  restore_types(out.rewritten, imported);
  keep_places_in_file(out.rewritten, imported);
  return out;
}

std::string unranked_note(const TensorFlowPlanned& planned) {
  if (planned.unranked.empty()) return {};
  return fmt::format(
      "Note: of {} tensor{} TensorFlow does not know the size, and they count as nothing; first: "
      "%{}\n",
      planned.unranked.size(), planned.unranked.size() == 1 ? "" : "s",
      spelled(planned.graph.name(planned.unranked.front())));
}

}  // namespace ebb
