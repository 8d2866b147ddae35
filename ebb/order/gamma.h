// The paper's topological ordering γ (section 3.2), and tensors' lifetimes in its terms.
//
// Parameterized operations have γ = 0. Any other operation comes one level after the latest of
// those it waits for by a read, an in-place update of an intermediate, or control. Edges whose
// tensor is a variable, or a version of one, do not count: variables come first, and updating one
// does not make its readers wait in this order. Operations of equal γ may run in parallel.
//
// γ is the paper's number and nothing else: what is safe is decided by the dependence order
// (graph/dependence.h), which does see updates of variables. O(nodes + edges).
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

class Gamma {
 public:
  explicit Gamma(const Graph& graph);  // a graph that the verifier accepts

  [[nodiscard]] std::uint32_t operator[](NodeId node) const { return levels_[node.index()]; }
  [[nodiscard]] std::uint32_t highest() const { return highest_; }

 private:
  std::vector<std::uint32_t> levels_;
  std::uint32_t highest_ = 0;
};

// By tensor: max γ(consumers) − γ(producer); 0 for one that nobody reads. A view's readers count
// for the view, not for what it is a view of.
std::vector<std::uint32_t> lifetimes(const Graph& graph, const Gamma& gamma);

}  // namespace ebb
