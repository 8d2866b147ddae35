// Random decisions for tests of rewriting: readers that are readers and triggers that may be ones,
// mostly. Many are refused; the rules decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

#include "ebb/graph/graph.h"
#include "ebb/rewrite/decision.h"

namespace ebb {

class RandomDecisions {
 public:
  explicit RandomDecisions(std::uint64_t seed) : engine_(seed) {}

  // For the graph as rewritten so far. Swaps have no codec.
  Decision any(const Graph& graph);

 private:
  std::size_t below(std::size_t sides) { return engine_() % sides; }
  NodeId node(const Graph& graph);
  NodeId somebody_to_split(const Graph& graph);
  NodeId somebody_before(const Graph& graph, NodeId at);

  std::mt19937_64 engine_;
};

// The graph after as many decisions, less those that were refused.
Graph rewritten_at_random(Graph graph, std::uint64_t seed, int decisions);

}  // namespace ebb
