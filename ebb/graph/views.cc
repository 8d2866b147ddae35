#include "ebb/graph/views.h"

#include <algorithm>

namespace ebb {

bool makes_only_views(const Graph& graph, NodeId node) {
  const auto results = graph.results(node);
  return graph.is_op(node) && !results.empty() && graph.effect(node) == Effect::kPure &&
         !graph.updates_something(node) &&
         std::all_of(results.begin(), results.end(),
                     [&](TensorId result) { return graph.root(graph.storage(result)) != result; });
}

}  // namespace ebb
