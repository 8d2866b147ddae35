// Random training steps, and random machines to plan them for.
//
// A step has a forward part of chains, branches and skip connections, a backward part that reads
// forward values roughly the last first, and updates of parameters, each early or at the end. Among
// its operations are those that give planners trouble: some that update a small parameter on the
// way, as batch normalisation does, some that are random, views and operators that make views
// beside others, operators that may work in place, alone and on lists, workspaces, control edges,
// results that nobody reads or that are returned, operations of the host, sizes from nothing to
// much.
#pragma once

#include <cstdint>

#include "ebb/graph/graph.h"
#include "ebb/plan/device.h"

namespace ebb {

struct RandomStepOptions {
  int layers = 8;      // of the forward part; each has one to three lines, and as many backward
  bool plain = false;  // chains of operations and their gradients, and nothing that is odd
};

// The same seed gives the same step, and the same device, on every machine.
Graph random_step(std::uint64_t seed, const RandomStepOptions& options = {});
// Copies from much slower to much faster than what a step computes meanwhile.
Device random_device(std::uint64_t seed);

}  // namespace ebb
