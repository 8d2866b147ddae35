// The order of lines while a graph is being rewritten: a line goes in anywhere in O(1), and of two
// lines it is known at once which stands first.
//
// Idea: a linked list whose members carry numbers that grow along it. A new line takes a number
// between its neighbours'; where there is none left, the smallest surroundings that are not crowded
// are numbered anew (Bender, Cole, Demaine, Farach-Colton, Zito: "Two simplified algorithms for
// maintaining order in a list", 2002). An insertion costs O(log lines) on average over any sequence
// of them, a comparison O(1); 24 bytes a line. Where a chain of lines each hangs below the one
// before, all of them end at the same line: it is looked up as in a union-find structure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/graph/graph.h"

namespace ebb {

class LineOrder {
 public:
  explicit LineOrder(std::span<const NodeId> order);

  [[nodiscard]] bool is_before(NodeId a, NodeId b) const { return at(a).label < at(b).label; }
  // The neighbouring line; not valid at the ends.
  [[nodiscard]] NodeId previous(NodeId line) const { return at(line).previous; }
  [[nodiscard]] NodeId next(NodeId line) const { return at(line).next; }

  void insert_after(NodeId where, NodeId line);
  void insert_before(NodeId where, NodeId line);
  // Below `anchor` and the lines that were hung there before, so that what several rules put after
  // one operation stands in the order of the rules; at once below `anchor` where those reach down
  // to `limit`, above which the line must stay.
  void hang(NodeId anchor, NodeId line, NodeId limit);
  // Right below `anchor`, above what was hung there before.
  void hang_first(NodeId anchor, NodeId line) { hang_below(anchor, anchor, line); }
  // Takes the line out and puts it in again, without what hangs below it.
  void move_after(NodeId where, NodeId line);

  [[nodiscard]] std::vector<NodeId> lines() const;

 private:
  struct Line {
    std::uint64_t label = 0;
    NodeId previous;
    NodeId next;
    NodeId anchor;     // what it hangs below; not valid for lines that stand by themselves
    NodeId last_hung;  // was the last once: the last now is the last below that
  };

  [[nodiscard]] const Line& at(NodeId line) const { return lines_[line.index()]; }
  Line& at(NodeId line) { return lines_[line.index()]; }
  void link(NodeId previous, NodeId line);  // not valid: as the first
  // The last line hung below this one, or below those; the line itself when there is none.
  NodeId find_last_hung(NodeId line);
  // For the line and for those it hangs below that have the same last; not valid: each is its own.
  void set_last_hung(NodeId line, NodeId last);
  void hang_below(NodeId above, NodeId anchor, NodeId line);
  void make_room_after(NodeId line);

  std::vector<Line> lines_;  // by node
  NodeId first_;
};

}  // namespace ebb
