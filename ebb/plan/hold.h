// Control edges that hold TensorFlow's executor to the lines of a plan.
//
// The executor starts whatever is ready, and goes on while copies are under way. A plan counts on
// three things that it does not know:
//
//   order     Operations that touch large tensors run in the order of their lines. Where two that
//             follow each other do not wait for each other anyway, the second is delayed. So is a
//             swap-in that stands further down than its trigger.
//   release   What was swapped out is gone when others need its bytes. Where what the lines hold
//             and what is still being copied together exceed the budget, the operation waits until
//             the oldest of these copies have ended: a swap-out's result is on the host then.
//   looking   Who only looks at a large tensor, as `Shape` does, has looked when the tensor has no
//             other use: the next of these operations waits for that.
//
// What stays free: operations on small tensors, and what the rule does not let wait, across a loop
// for instance; so the executor may hold a little more than the lines, and a plan is judged by what
// the simulation of the result says. O(nodes + edges), but for who waits for many copies at once.
#pragma once

#include <cstddef>
#include <span>

#include "ebb/base/units.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {

struct HoldOptions {
  Bytes budget;
  Bytes large{};  // tensors below are not worth an edge
  // Whether everything in the graph runs whenever anything does, as in a function. Who runs a part
  // of a graph, to initialise variables or to evaluate, must not come to run the training step:
  // then a forward operation waits only for copies of what it depends on anyway, and only
  // operations of the backward phase are put in order.
  bool runs_as_a_whole = true;
};

struct Held {
  std::size_t order_edges = 0;
  std::size_t release_edges = 0;
  std::size_t refused = 0;  // delays that the rule did not allow, as across a loop
};

// Of a rewriter that has been settled; settles again. `workspaces` by node.
Held hold_to_lines(Rewriter& rewriter, std::span<const Bytes> workspaces,
                   const HoldOptions& options);

}  // namespace ebb
