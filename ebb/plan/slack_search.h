// Looks for a smaller layout where the quick heuristics end above the target.
//
// The idea: say how large the arena may be, and every section has a slack, the room that may stay
// empty in it. Build from the ground up as the skyline does (skyline.h): take the lowest stretch,
// put an item there or lift the stretch, which costs each of its sections some slack. A section
// that has not enough must be covered by an item, now: often by one of few, or by none, and then
// something further down was wrong and is undone. So far it is depth-first search in the manner of
// MiniMalloc (Moffitt, ASPLOS 2023), whose canonical solutions and section inference these are. But
// what was wrong mostly lies far back: after some failures start again, with the items around the
// sections that failed more important than before (squeaky wheel optimization; Joslin, Clements,
// 1999), and with another size in mind.
//
// Nothing is tried at random. A try that comes to its end without having left anything out has
// proved that there is no such layout, which is how small problems end. Each step looks at all
// sections and at the items that begin in the stretch; where there are many thousands, the effort
// ends before the search has found anything. Room below a buffer with a fixed offset is not used.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/plan/layout_orders.h"
#include "ebb/plan/layout_problem.h"
#include "ebb/plan/placer.h"

namespace ebb {

class SlackSearch {
 public:
  explicit SlackSearch(const LayoutProblem& problem);  // must outlive this object

  // Replaces a layout of that size by smaller ones until one is as small as the problem's target,
  // none is known to be smaller, or no effort is left. Returns the new size; `offsets` by item.
  std::int64_t improve(std::int64_t size, const LayoutOrders& orders, Effort& effort,
                       std::vector<std::int64_t>& offsets);

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  // What could be done at the lowest stretch, and what has been tried of it.
  struct Choice {
    std::uint32_t first = 0;  // of the stretch
    std::uint32_t last = 0;
    std::int64_t height = 0;
    std::int64_t lifted = 0;       // the height of its lower neighbour
    std::uint32_t must = kNone;    // the section that must be covered
    std::uint32_t candidates = 0;  // where they begin; they end where the next choice's begin
    std::uint32_t next = 0;        // the one to try next
    std::uint32_t placed = kNone;  // which item stands there now
    bool is_lifted = false;
  };

  // An order of the items, and what was learnt while it was used.
  struct Memory {
    LayoutOrder order;                // as it was given
    std::vector<std::int64_t> blame;  // by item
    std::int64_t tries = 0;
  };

  enum class Outcome : std::uint8_t { kFound, kImpossible, kGaveUp };

  Outcome try_size(std::int64_t size, Memory& memory, Effort& effort);
  void start(std::int64_t size, const Memory& memory);
  void add_choice(Effort& effort);
  void add_candidates(Choice& choice);
  // Does the next of what could be done; false when there is nothing left.
  bool advance(Choice& choice, Memory& memory, Effort& effort);
  void undo(Choice& choice);
  void set_heights(std::uint32_t first, std::uint32_t last, std::int64_t height);
  void lift(const Choice& choice, std::int64_t by);
  void fail_at(std::uint32_t section, Memory& memory, Effort& effort);

  const LayoutProblem& problem_;
  std::vector<std::uint32_t> by_first_;    // items in the order of their first sections
  std::vector<std::uint32_t> begin_;       // by section: where its items begin in by_first_
  std::vector<std::int64_t> heights_;      // by section
  std::vector<std::int64_t> slack_;        // by section
  std::vector<bool> is_placed_;            // by item
  std::vector<std::uint32_t> ranks_;       // by item
  std::vector<std::int64_t> offsets_;      // by item
  std::vector<Choice> choices_;            // made so far
  std::vector<std::uint32_t> candidates_;  // of all choices
  std::size_t left_ = 0;                   // items to be placed
  std::int64_t failures_ = 0;              // in this try
  bool left_out_ = false;                  // candidates, in this try
};

}  // namespace ebb
