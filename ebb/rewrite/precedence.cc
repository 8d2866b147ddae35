#include "ebb/rewrite/precedence.h"

namespace ebb {

Precedence::Precedence(const Graph& graph, const LineOrder& lines)
    : graph_(graph), lines_(lines), dependence_(graph), reachability_(graph, dependence_) {}

void Precedence::note(NodeId later, NodeId earlier, bool orders_old_nodes) {
  if (first_noted_.size() <= later.index()) first_noted_.resize(graph_.node_count());
  noted_.push_back({earlier, first_noted_[later.index()]});
  first_noted_[later.index()] = static_cast<std::uint32_t>(noted_.size());
  old_nodes_ordered_ = old_nodes_ordered_ || orders_old_nodes;
}

bool Precedence::waits(NodeId later, NodeId earlier) {
  if (!lines_.is_before(earlier, later)) return false;
  if (!is_old(later) || !is_old(earlier)) return search(later, earlier);
  return reachability_.reaches(earlier, later) || (old_nodes_ordered_ && search(later, earlier));
}

// Whom the node waits for, in the graph as it was and as it is.
template <class Visit>
void Precedence::for_each_before(NodeId node, Visit&& visit) const {
  if (is_old(node)) {
    for (const auto& edge : dependence_.before(node)) visit(edge.node);
  }
  for (const Operand& operand : graph_.operands(node)) {
    if (operand.tensor.valid()) visit(graph_.producer(operand.tensor));
  }
  graph_.for_each_scalar_read(node, [&](ScalarId scalar) { visit(graph_.producer(scalar)); });
  for (const NodeId control : graph_.controls(node)) visit(control);
  if (node.index() >= first_noted_.size()) return;
  for (std::uint32_t i = first_noted_[node.index()]; i != 0; i = noted_[i - 1].next) {
    visit(noted_[i - 1].node);
  }
}

std::vector<NodeId> Precedence::waiting_down_to(NodeId node, NodeId last) {
  last_search_.resize(graph_.node_count());
  last_search_[node.index()] = ++searches_;
  std::vector<NodeId> waiting;
  for (NodeId line = node; line != last;) {
    line = lines_.next(line);
    bool waits = false;
    for_each_before(
        line, [&](NodeId before) { waits = waits || last_search_[before.index()] == searches_; });
    if (!waits) continue;
    last_search_[line.index()] = searches_;
    waiting.push_back(line);
  }
  return waiting;
}

bool Precedence::search(NodeId later, NodeId earlier) {
  last_search_.resize(graph_.node_count());
  ++searches_;
  bool found = false;
  // Without new order among them, old nodes need no search.
  const bool jump = is_old(earlier) && !old_nodes_ordered_;
  stack_.assign(1, later);
  while (!stack_.empty() && !found) {
    const NodeId node = stack_.back();
    stack_.pop_back();
    for_each_before(node, [&](NodeId before) {
      if (found || before == earlier) {
        found = true;
        return;
      }
      if (last_search_[before.index()] == searches_) return;
      last_search_[before.index()] = searches_;
      if (!lines_.is_before(earlier, before)) return;
      if (is_old(before) && is_old(earlier) && reachability_.reaches(earlier, before)) {
        found = true;
      } else if (!jump || !is_old(before)) {
        stack_.push_back(before);
      }
    });
  }
  return found;
}

}  // namespace ebb
