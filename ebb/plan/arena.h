// Where everything that a step touches lies: one arena on the device, and a slab on the host for
// what was swapped out.
//
//   const Arena arena = arrange(graph, needs_of(graph, costs.workspace));
//   arena.size <= budget
//
// First in the arena lies the state (parameters and constants), at offsets that depend on the
// declarations only, so that programs of one model for batches of several shapes can share it; then
// inputs, activations and workspaces, by the lines between which they are needed (order/liveness.h)
// and with bytes reused in place (in_place.h). What runs lays itself out by the same function, so
// what is predicted is what is used. Deterministic; cost as in layout.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"

namespace ebb {

// How many bytes, all known.
struct ArenaNeeds {
  Bytes variables{};                // behind handles (order/variables.h): first of the state
  std::vector<Bytes> storages;      // by storage
  std::vector<Bytes> workspaces;    // by node, while its line runs
  std::vector<bool> on_host;        // by node: its workspace is in the slab
  std::vector<bool> can_be_placed;  // by storage, as in in_place.h
};

// Storages need what their types say, and can be placed; workspaces are where their line runs.
ArenaNeeds needs_of(const Graph& graph, std::span<const Bytes> workspaces);

struct ArenaOptions {
  Bytes alignment{64};  // of every place in either block; a power of two
  bool reuse_in_place = true;
  // Where the usual layout is larger than this and need not be, one of this size is sought. So a
  // step whose usual layout fits has that one, whatever its budget.
  Bytes budget{};
};

struct Arena {
  std::vector<Bytes> storages;    // by storage: where it begins, in its block; empty ones at 0
  std::vector<Bytes> workspaces;  // by node: where its workspace begins
  Bytes size;
  Bytes state_size;  // the front part that lives from step to step
  Bytes bound;       // no layout of these lifetimes is smaller
  Bytes host_size;   // of the slab; zero when nothing is swapped out
  Bytes host_bound;
  // How many results took over the bytes of an operand that died at their operation.
  std::size_t reused_in_place = 0;
};

// The graph must pass the verifier.
Arena arrange(const Graph& graph, const ArenaNeeds& needs, const ArenaOptions& options = {});

}  // namespace ebb
