// A graph that came from TensorFlow (ebb/import/graphdef.h) as a GraphDef again.
//
//   Result<std::string> bytes = export_graphdef(graph);
//
// To whom nothing was done comes out byte for byte; otherwise only what changed differs. What
// rewriting added carries the string attribute `_ebb`: `swap_out`, `swap_in`, `recompute`.
#pragma once

#include <cstdint>
#include <string>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/import/graphdef.h"

namespace ebb {

// What swaps become. Identities on the host, which TensorFlow's own passes are told to leave there;
// or the GPU's copy kernels, which only TensorFlow for GPUs has.
enum class SwapNodes : std::uint8_t { kIdentity, kCopyKernels };

struct GraphDefExport {
  TensorFlowDevices devices;
  SwapNodes swap_nodes = SwapNodes::kIdentity;
};

[[nodiscard]] Result<std::string> export_graphdef(const Graph& graph,
                                                  const GraphDefExport& options = {});

}  // namespace ebb
