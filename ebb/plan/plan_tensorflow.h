// A plan for a step that TensorFlow runs, whose executor and allocator are its own.
//
//   const auto done = plan_for_tensorflow(graph, device, {.budget = "14GiB", .batch_size = 256});
//   if (done && done->planned.plan) write(export_graphdef(done->rewritten));
//
// Open dimensions get the batch size (import/complete_shapes.h), lines an order that needs little
// memory (order/frugal_order.h), and the plan control edges that hold the executor to it (hold.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"
#include "ebb/plan/plan.h"

namespace ebb {

// Takes what has no known rank to be empty (import/complete_shapes.h): what of that is on the
// device. kBadInput where that is most of what the graph makes: it was written without shapes.
[[nodiscard]] Result<std::vector<TensorId>> empty_without_rank(Graph& graph);

struct TensorFlowBudget {
  std::string budget;  // "14GiB", or "60%" of what the step takes as it is
  std::optional<std::int64_t> batch_size = std::nullopt;  // of what the graph leaves open
  PlanOptions plan = {};             // its budget and its clock are not looked at
  Clock clock = Clock::kRendezvous;  // kEnqueued where swaps are to be kernels of the device
};

struct TensorFlowPlanned {
  Planned planned;
  Graph graph;      // that was planned for: sizes known, lines in a frugal order
  Graph rewritten;  // by the plan, with the types of the original; where there is a plan
  // On the device, and counted as nothing, because not even the rank is known.
  std::vector<TensorId> unranked;
};

// A line about those for people; empty where there are none.
std::string unranked_note(const TensorFlowPlanned& planned);

// Of a graph that came from TensorFlow and that nobody has rewritten. kBadInput where sizes are not
// known, naming a tensor and what helps; kUsage where the budget is none. Where nothing fits,
// `planned` says why.
[[nodiscard]] Result<TensorFlowPlanned> plan_for_tensorflow(const Graph& imported,
                                                            const Device& device,
                                                            const TensorFlowBudget& budget);

}  // namespace ebb
