// A step's timeline by costs, before anything runs.
//
//   const Timeline timeline = simulate(graph, *estimate_costs(graph, device));
//
// The model of Ebb's runtime. Three lanes: compute, and a copy engine each way (link_clock.h).
// Operations run in line order. Lines say when bytes change hands: a storage holds its bytes until
// the last line that touches it, so lines below may be given them, and wait until a swap-out of it
// has ended. A swap-out starts as soon as what it waits for is there, on whatever line it stands; a
// swap-in at its line, where it gets its bytes. Engines take copies in the order in which they
// start.
//
// Memory at an instant: a result is there when its operation (or copy) starts, and until the last
// operation (or copy) that touches it ends; it never exceeds what the lines hold
// (order/liveness.h). Workspaces are there while their operation runs. O(n log n).
//
// TensorFlow has another clock. Its executor only enqueues operations, each after one launch, and
// runs ahead of the device: a result gets its bytes when its operation is enqueued, and they go to
// others when the last reader was enqueued, which is safe because the compute stream keeps its
// order. Copies wait for what is in that stream when they are enqueued; who reads a copy, or waits
// for one, is enqueued when it has ended. Nobody waits for bytes: what a swap-out still reads is
// held as well, so the peak may be above what the lines hold. On the host only what was swapped out
// counts: the rest is there without a plan, too.
//
// Where swaps are nodes of the host, edges lead from one device to the other, and TensorFlow sends
// an empty tensor along each, by way of a copy stream. So a swap-in is asked for when the device
// has done what it comes after and the copies out that were under way have ended; the executor has
// gone on until then, as far as it could, and the copy waits for all that as well. Who waits for a
// swap-out waits for what is in the compute stream and for the copies back under way.
#pragma once

#include "ebb/graph/graph.h"
#include "ebb/plan/clock.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/timeline.h"

namespace ebb {

// Of a graph that the verifier accepts, rewritten or not, whose costs these are.
Timeline simulate(const Graph& graph, const StepCosts& costs, Clock clock = Clock::kCompleted);

}  // namespace ebb
