// A graph that came from TensorFlow (ebb/import/graphdef.h) as a GraphDef again.
//
//   Result<std::string> bytes = export_graphdef(graph);
//
// To whom nothing was done comes out byte for byte; otherwise only what changed differs. What
// rewriting added carries the string attribute `_ebb`: `swap_out`, `swap_in`, `recompute`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/import/graphdef.h"
#include "ebb/plan/clock.h"

namespace ebb {

// What swaps become. Identities on the host, which TensorFlow's own passes are told to leave there;
// or the GPU's copy kernels, which only TensorFlow for GPUs has.
enum class SwapNodes : std::uint8_t { kIdentity, kCopyKernels };
// The clock of a step whose swaps are such nodes.
constexpr Clock clock_of(SwapNodes nodes) {
  return nodes == SwapNodes::kCopyKernels ? Clock::kEnqueued : Clock::kRendezvous;
}
// Which of them the swaps of a GraphDef are.
[[nodiscard]] SwapNodes swap_nodes_of(std::string_view graphdef);

struct GraphDefExport {
  TensorFlowDevices devices;
  SwapNodes swap_nodes = SwapNodes::kIdentity;
};

[[nodiscard]] Result<std::string> export_graphdef(const Graph& graph,
                                                  const GraphDefExport& options = {});

}  // namespace ebb
