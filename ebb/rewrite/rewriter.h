// The only door for changing a graph by rules.
//
//   Rewriter rewriter(graph);
//   for (const Decision& decision : decisions)
//     if (Status done = rewriter.apply(decision); !done) report(done.error());   // says why not
//   rewriter.settle();
//
// A rule is two functions, in a file of its own: check, which answers why not and cannot change
// anything, and apply, which cannot fail after check. Rules add lines and move operands; ids of
// what was there keep their meaning. Lines go to their places in O(1), and the graph's own order is
// written by settle(), once a batch: until then new nodes stand last there.
//
// The verifier runs after every rule where that is asked for, and at settle() otherwise. What it
// finds is our own bug, an InternalError that names the rule; the graph is of no use then, so
// whoever may need the original keeps a copy. One thread at a time, questions included.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/dependence.h"
#include "ebb/graph/edit.h"
#include "ebb/graph/graph.h"
#include "ebb/rewrite/decision.h"
#include "ebb/rewrite/line_order.h"
#include "ebb/rewrite/precedence.h"
#include "ebb/rewrite/totals.h"

namespace ebb {

struct RewriterOptions {
  // Verify after every rule, O(graph) each. Not given: where the library was built with assertions.
  std::optional<bool> verify_each = std::nullopt;
  // Told after every rule, when the graph is settled and verified.
  std::function<void(const Graph&, const Decision&)> after_each = nullptr;
};

// What one rule did.
struct JournalEntry {
  Decision decision;
  IdRange<NodeId> added;
  std::uint32_t edges_moved = 0;
};

class Rewriter {
 public:
  // The graph must pass the verifier and outlive this object, and nobody else changes it meanwhile.
  explicit Rewriter(Graph& graph, const RewriterOptions& options = {});

  [[nodiscard]] const Graph& graph() const { return graph_; }

  // Whether the rule applies, or the reason why not.
  [[nodiscard]] Status check(const Decision& decision) const;
  // Checks and applies; a decision that is refused changes nothing.
  [[nodiscard]] Status apply(const Decision& decision);
  // Writes the line order into the graph, and verifies.
  void settle();

  [[nodiscard]] const std::vector<JournalEntry>& journal() const { return journal_; }

  // --- For checks.

  // Whether `later` waits for `earlier`, in the graph as it is or as it was.
  [[nodiscard]] bool waits(NodeId later, NodeId earlier) const {
    return precedence_.waits(later, earlier);
  }
  // The lines below that of `node`, down to `last`, that wait for it.
  [[nodiscard]] std::vector<NodeId> waiting_down_to(NodeId node, NodeId last) const {
    return precedence_.waiting_down_to(node, last);
  }
  // Whether the node was there before any rule.
  [[nodiscard]] bool was_there(NodeId node) const { return precedence_.is_old(node); }
  [[nodiscard]] const LineOrder& lines() const { return lines_; }
  [[nodiscard]] const Totals& totals() const { return totals_; }
  // The node that overwrites this tensor's version; not valid when none does.
  [[nodiscard]] NodeId updater(TensorId tensor) const {
    return updates_.updater(graph_.storage(tensor), graph_.version(tensor));
  }
  // The node that made the version this tensor is of: by an update, or by bringing the bytes into
  // being.
  [[nodiscard]] NodeId version_maker(TensorId tensor) const;
  // A copy of the tensor that was made before in this way ("ebb::swap_out bf16"); not valid when
  // there is none.
  [[nodiscard]] TensorId find_copy(TensorId source, std::string_view way) const;
  // The last swap-out that was put below the maker of what it copies; not valid when none was since
  // lines have last been moved.
  [[nodiscard]] NodeId last_swap_out(NodeId maker) const;

  // --- For rules at work.

  // Where a new line goes.
  struct Place {
    enum class Kind : std::uint8_t { kBelow, kRightBelow, kRightAbove };
    Kind kind = Kind::kBelow;
    NodeId anchor;
    NodeId limit;

    // Below the anchor and what was put there before, above the limit.
    static Place below(NodeId anchor, NodeId limit) { return {Kind::kBelow, anchor, limit}; }
    static Place right_below(NodeId anchor) { return {Kind::kRightBelow, anchor, {}}; }
    static Place right_above(NodeId anchor) { return {Kind::kRightAbove, anchor, {}}; }
  };
  NodeId add_op(std::string_view op, std::span<const Operand> operands, const Place& place);
  // The same call with these operands, marked as a clone, with the original's clauses and control
  // edges.
  NodeId add_clone(NodeId original, std::span<const Operand> operands, const Place& place);
  // The same call, right above the other, that makes its results from the given one on; the other
  // keeps those before. Each takes half of the time.
  NodeId add_part(NodeId whole, std::size_t first_result);
  // Results are named after what they hold: %h.back, and when there is one already, %h.back.2.
  TensorId add_result(NodeId node, TensorId named_after, std::string_view suffix,
                      const TensorType& type);
  TensorId add_shared_result(NodeId node, TensorId named_after, std::string_view suffix,
                             TensorId shares, Bytes offset);
  void add_attribute(NodeId node, std::string_view key, std::string_view text);
  // Of an attribute that the node has.
  void set_flags(NodeId node, std::string_view key, std::span<const bool> flags);
  void add_control(NodeId node, NodeId control);
  // Where the node runs, and in which scope.
  void set_place_of_execution(NodeId node, NodeId as, ScopeId scope);
  void set_scope(NodeId node, ScopeId scope) { edit_.set_scope(node, scope); }
  void move_edge(NodeId reader, std::size_t operand, TensorId to);  // not valid: to nothing
  void move_line_after(NodeId where, NodeId line);
  // An update waits for a new reader, or a node for another by a new control edge. If there is new
  // order among nodes that were there before, say so.
  void note_wait(NodeId later, NodeId earlier, bool orders_old_nodes) {
    precedence_.note(later, earlier, orders_old_nodes);
  }
  // Whether there is such new order.
  [[nodiscard]] bool has_new_order() const { return precedence_.old_nodes_are_ordered(); }
  void note_copy(TensorId source, std::string_view way, TensorId copy);
  void note_swap_out(NodeId maker, NodeId swap_out) { swap_outs_[maker] = swap_out; }

 private:
  struct Copy {
    std::string way;
    TensorId tensor;
  };

  void find_copies();
  void verify_now() const;
  NodeId add_call(NodeId as, std::span<const Operand> operands, const Place& place);
  SymbolId unused_name(TensorId named_after, std::string_view suffix);

  Graph& graph_;
  GraphEdit edit_;
  bool verify_each_;
  std::function<void(const Graph&, const Decision&)> after_each_;
  LineOrder lines_;
  Updates updates_;
  Totals totals_;
  mutable Precedence precedence_;  // questions use its scratch memory
  std::unordered_map<TensorId, std::vector<Copy>> copies_;
  std::unordered_map<NodeId, NodeId> swap_outs_;             // by maker, the last
  std::unordered_map<SymbolId, std::uint32_t> last_number_;  // of names that were taken
  std::vector<JournalEntry> journal_;
};

}  // namespace ebb
