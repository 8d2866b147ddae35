// "Does b wait for a?" in a graph that is being rewritten.
//
// Idea: the answer on the graph as it was (order/reachability.h) stays right for the nodes that
// were there. A copy or a recomputed operation waits only for what each of its readers waited for
// already, so it orders no two old nodes anew. What does, a delay or an update that must now wait
// for a clone to read what it overwrites, is noted here; a "no" is then checked by a search. So are
// questions about new nodes. Searches walk from the later node upwards, never above the line of the
// earlier one.
//
// An edge that rewriting took away still counts: no order that existed when rewriting began is ever
// turned round, and answers depend on what was applied, not on what was asked before.
//
// Cost: O(nodes + edges) to build. A question is O(1) in the usual case; one that is searched costs
// O(nodes + edges between the two lines), so thousands of delays over a whole large graph are slow.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/graph/dependence.h"
#include "ebb/graph/graph.h"
#include "ebb/order/reachability.h"
#include "ebb/rewrite/line_order.h"

namespace ebb {

class Precedence {
 public:
  // Both must outlive this object; the graph passes the verifier, and its lines stand in order.
  Precedence(const Graph& graph, const LineOrder& lines);
  Precedence(const Precedence&) = delete;  // its parts point at each other
  Precedence& operator=(const Precedence&) = delete;
  ~Precedence() = default;

  // Whether `later` waits for `earlier`. Nobody waits for itself.
  bool waits(NodeId later, NodeId earlier);

  // The lines below that of `node`, down to `last`, that wait for it: as many answers of waits() in
  // one walk, O(lines + edges between the two).
  std::vector<NodeId> waiting_down_to(NodeId node, NodeId last);

  // `later` waits for `earlier` from now on, for a reason that is not among its operands.
  // `orders_old_nodes`: and so do nodes that were there before, for others that were.
  void note(NodeId later, NodeId earlier, bool orders_old_nodes);

  // Whether nodes that were there wait for others that were, since note() said so.
  [[nodiscard]] bool old_nodes_are_ordered() const { return old_nodes_ordered_; }

  // Whether the node was there when this object was made.
  [[nodiscard]] bool is_old(NodeId node) const { return node.index() < dependence_.node_count(); }

 private:
  bool search(NodeId later, NodeId earlier);
  template <class Visit>
  void for_each_before(NodeId node, Visit&& visit) const;

  struct Noted {
    NodeId node;
    std::uint32_t next = 0;  // in noted_, counted from 1; 0 is the end
  };

  const Graph& graph_;
  const LineOrder& lines_;
  Dependence dependence_;
  Reachability reachability_;
  std::vector<Noted> noted_;
  std::vector<std::uint32_t> first_noted_;  // by node; may be shorter than there are nodes
  bool old_nodes_ordered_ = false;
  // Of searches: the nodes seen, and which search saw them.
  std::vector<std::uint32_t> last_search_;
  std::uint32_t searches_ = 0;
  std::vector<NodeId> stack_;
};

}  // namespace ebb
