// What each operation of a step costs: the one interface between planning and where times come
// from.
//
//   const auto costs = estimate_costs(graph, find_device("h200").value());
//   costs->compute[node.index()], costs->workspace[node.index()];
//   copy_time(costs->link, bytes, CopyDirection::kToHost);
//
// Three sources, in this order: a profile that has the operation's signature; `takes` and
// `workspace` in the graph's text; the roofline over the device's numbers, which knows no
// workspaces but those of TensorFlow's convolutions (workspace_tensorflow.h). Nothing is what
// declarations, views, host arithmetic and operations of the host take, and copies over the link,
// which have engines of their own. A clone costs what its original costs. O(nodes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"
#include "ebb/plan/profile.h"

namespace ebb {

enum class CostSource : std::uint8_t { kText, kProfile, kModel, kUnknownOperation, kNothing };

struct StepCosts {
  std::vector<Duration> compute;  // by node
  std::vector<Bytes> workspace;
  std::vector<CostSource> source;
  Link link;
  Duration launch{0};       // of one more operation
  Bandwidth memory;         // what a pass over the device's memory reaches
  std::size_t unknown = 0;  // operations of which the model knows no more than their sizes
};

// kBadInput when a size that is needed is unknown, when the profile has nothing of this graph, and
// when all operations together would take more than 2^61 ns (73 years).
[[nodiscard]] Result<StepCosts> estimate_costs(const Graph& graph, const Device& device,
                                               const Profile* profile = nullptr);

// What `ebb::snapshot` takes: it reads and writes the bytes.
Duration snapshot_time(const StepCosts& costs, Bytes bytes);

// The operators behind `unknown`, most frequent first: "my::op (10), my::other (2)".
std::string unknown_operators(const Graph& graph, const StepCosts& costs);

}  // namespace ebb
