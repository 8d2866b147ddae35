// Runs a graph of hash operations with every storage in memory of its own: nothing is planned,
// nothing can be in anybody's way.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ebb/exec/scalars.h"
#include "ebb/graph/graph.h"

namespace ebb {

class Reference {
 public:
  explicit Reference(const Graph& graph);

  // One step. The state is what the last one left.
  void run(exec::Scalars& scalars);

  [[nodiscard]] std::span<std::byte> bytes(TensorId tensor);

 private:
  const Graph& graph_;
  std::vector<std::vector<std::byte>> buffers_;  // by storage
};

}  // namespace ebb
