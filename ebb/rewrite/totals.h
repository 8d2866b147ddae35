// All sizes and all durations of a graph, each added up, which the verifier limits (V04) so that
// whoever adds them need not look out. Rewriting adds copies; it must not break the limit.
#pragma once

#include <cstdint>

#include "ebb/graph/graph.h"

namespace ebb {

class Totals {
 public:
  Totals() = default;
  // Of a graph that the verifier accepts. O(nodes + storages).
  explicit Totals(const Graph& graph);

  // A new storage of this type; unknown sizes count as nothing, as in the verifier.
  void add(const TensorType& type);
  void add_workspace(Bytes bytes);
  // The workspace and the duration of another node like this one.
  void add_costs(const Graph& graph, NodeId node);

  // Whether the two together are within the limit.
  [[nodiscard]] bool has_room_for(const Totals& more) const;

 private:
  std::int64_t bytes_ = 0;  // above the limit: any number that is
  std::int64_t nanoseconds_ = 0;
};

}  // namespace ebb
