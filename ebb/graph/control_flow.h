// What is special about the nodes that loops and branches are made of, as TensorFlow names them.
#pragma once

#include "ebb/graph/graph.h"

namespace ebb {

// Whether who waits for it waits somewhere else than it stands: inside the loop for tf::Enter, in
// the loop's next round for tf::NextIteration.
bool leads_elsewhere(const Graph& graph, NodeId node);

// Whether what it makes is not where it stands: what tf::Enter makes is in the loop, and of what
// tf::Switch makes one arrives, on its side. A copy beside it would be somewhere else, or might
// not be.
bool makes_elsewhere(const Graph& graph, NodeId node);

// Whether it waits somewhere else than it stands: tf::Exit waits inside the loop.
bool comes_from_elsewhere(const Graph& graph, NodeId node);

// Whether it runs although others that it waits for do not, as tf::Merge after the two sides of a
// conditional, or tf::ControlTrigger, which runs when all others have ended or will not run.
bool joins_branches(const Graph& graph, NodeId node);

}  // namespace ebb
