// "Does b wait for a, directly or through others?" on graphs of a million nodes.
//
// Idea: most questions are answered by comparing a few numbers per node; the rest by a search that
// the same numbers keep small, from whichever end has fewer neighbours.
//   no   when b stands no later than a in line order, is no higher in level (longest path), or its
//        interval under one of three depth-first numberings does not lie inside a's (GRAIL:
//        Yildirim, Chaoji, Zaki, VLDB 2010);
//   yes  when b is below a in the spanning tree of the first numbering.
// Cost: O(nodes + edges) time to build, 44 bytes a node to keep; a question is O(1) in the usual
// case and O(nodes + edges between a and b) at worst.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ebb/graph/dependence.h"
#include "ebb/graph/graph.h"

namespace ebb {

class Reachability {
 public:
  // Both must outlive this object; the graph must pass the verifier.
  Reachability(const Graph& graph, const Dependence& dependence);
  Reachability(const Graph& graph, Dependence&& dependence) = delete;

  // Whether `to` waits for `from`. Nobody waits for itself. Not const because it reuses its own
  // scratch memory: one thread at a time.
  bool reaches(NodeId from, NodeId to);

 private:
  static constexpr std::size_t kNumberings = 3;
  struct Interval {
    std::uint32_t low = 0;   // the smallest number of anything reachable
    std::uint32_t high = 0;  // the node's own
  };
  struct Labels {
    std::uint32_t position = 0;
    std::uint32_t level = 0;
    std::array<Interval, kNumberings> intervals;
    Interval tree;  // like the first, but over the spanning tree only
    std::uint32_t last_search = 0;
  };

  enum class Answer : std::uint8_t { kNo, kYes, kSearch };

  void number(std::size_t numbering, const std::vector<NodeId>& roots);
  [[nodiscard]] Answer quick_answer(const Labels& from, const Labels& to) const;
  Labels& labels(NodeId node) { return labels_[node.index()]; }

  const Dependence& dependence_;
  std::vector<Labels> labels_;
  std::vector<NodeId> stack_;
  std::uint32_t searches_ = 0;
};

}  // namespace ebb
