#include "ebb/order/reachability.h"

#include <algorithm>

namespace ebb {

Reachability::Reachability(const Graph& graph, const Dependence& dependence)
    : dependence_(dependence), labels_(graph.node_count()) {
  std::vector<NodeId> roots;
  std::uint32_t position = 0;
  for (const NodeId node : graph.order()) {
    Labels& mine = labels(node);
    mine.position = position++;
    for (const auto& edge : dependence.before(node)) {
      mine.level = std::max(mine.level, labels(edge.node).level + 1);
    }
    if (dependence.before(node).empty()) roots.push_back(node);
  }
  for (std::size_t i = 0; i < kNumberings; ++i) number(i, roots);
}

// Numbers nodes as a depth-first walk leaves them. The numberings differ in the order in which they
// take roots and successors: forwards, backwards, and starting in the middle.
void Reachability::number(std::size_t numbering, const std::vector<NodeId>& roots) {
  struct Visit {
    NodeId node;
    std::uint32_t next = 0;      // how many successors have been taken
    std::uint32_t tree_low = 0;  // the first number given below this node
  };
  constexpr std::uint32_t kUnvisited = 0xFFFFFFFF;
  const auto pick = [numbering](std::size_t i, std::size_t count) {
    if (numbering == 0) return i;
    if (numbering == 1) return count - 1 - i;
    return (i + count / 2) % count;
  };
  for (Labels& each : labels_) each.intervals[numbering].high = kUnvisited;

  std::uint32_t counter = 0;
  std::vector<Visit> stack;
  for (std::size_t r = 0; r < roots.size(); ++r) {
    stack.push_back({roots[pick(r, roots.size())], 0, counter});
    labels(stack.back().node).intervals[numbering] = {kUnvisited, kUnvisited - 1};
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const auto after = dependence_.after(visit.node);
      Interval& mine = labels(visit.node).intervals[numbering];
      if (visit.next < after.size()) {
        const NodeId child = after[pick(visit.next++, after.size())].node;
        Interval& theirs = labels(child).intervals[numbering];
        if (theirs.high == kUnvisited) {
          theirs = {kUnvisited, kUnvisited - 1};  // entered, not numbered yet
          stack.push_back({child, 0, counter});
        } else {
          mine.low = std::min(mine.low, theirs.low);
        }
        continue;
      }
      mine.high = counter++;
      mine.low = std::min(mine.low, mine.high);
      if (numbering == 0) labels(visit.node).tree = {visit.tree_low, mine.high};
      const std::uint32_t low = mine.low;
      stack.pop_back();
      if (!stack.empty()) {
        Interval& parent = labels(stack.back().node).intervals[numbering];
        parent.low = std::min(parent.low, low);
      }
    }
  }
}

Reachability::Answer Reachability::quick_answer(const Labels& from, const Labels& to) const {
  if (to.position <= from.position || to.level <= from.level) return Answer::kNo;
  for (std::size_t i = 0; i < kNumberings; ++i) {
    if (to.intervals[i].low < from.intervals[i].low ||
        to.intervals[i].high > from.intervals[i].high) {
      return Answer::kNo;
    }
  }
  if (from.tree.low <= to.tree.high && to.tree.high < from.tree.high) return Answer::kYes;
  return Answer::kSearch;
}

bool Reachability::reaches(NodeId from, NodeId to) {
  const Answer first = quick_answer(labels(from), labels(to));
  if (first != Answer::kSearch) return first == Answer::kYes;

  // From the end that has fewer neighbours: one of a node's many readers is found from its side.
  const bool downwards = dependence_.after(from).size() <= dependence_.before(to).size();
  const NodeId goal = downwards ? to : from;
  ++searches_;
  stack_.assign(1, downwards ? from : to);
  while (!stack_.empty()) {
    const NodeId node = stack_.back();
    stack_.pop_back();
    for (const auto& edge : downwards ? dependence_.after(node) : dependence_.before(node)) {
      if (edge.node == goal) return true;
      Labels& next = labels(edge.node);
      if (next.last_search == searches_) continue;
      next.last_search = searches_;
      const Answer answer =
          downwards ? quick_answer(next, labels(to)) : quick_answer(labels(from), next);
      if (answer == Answer::kYes) return true;
      if (answer == Answer::kSearch) stack_.push_back(edge.node);
    }
  }
  return false;
}

}  // namespace ebb
