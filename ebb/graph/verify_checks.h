// The invariants, one function each, in the order in which they are checked. A function may rely on
// all that stand above it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ebb/graph/graph.h"
#include "ebb/graph/verify.h"

namespace ebb {

// Collects what a check finds.
class Findings {
 public:
  Findings(std::string_view code, std::size_t limit) : code_(code), limit_(limit) {}

  [[nodiscard]] bool full() const { return found_.size() >= limit_; }
  template <class... Args>
  void add(NodeId node, fmt::format_string<Args...> format, Args&&... args) {
    if (!full()) {
      found_.push_back({code_, node, fmt::format(format, std::forward<Args>(args)...)});
    }
  }
  [[nodiscard]] bool any() const { return !found_.empty(); }
  void clear() { found_.clear(); }
  std::vector<Violation> take() { return std::move(found_); }

 private:
  std::string_view code_;
  std::size_t limit_;
  std::vector<Violation> found_;
};

using Check = void (*)(const Graph&, Findings&);

// Structure.
void check_ids_are_in_range(const Graph& graph, Findings& findings);
void check_names_are_unique(const Graph& graph, Findings& findings);
void check_types_are_sound(const Graph& graph, Findings& findings);
void check_sizes_add_up(const Graph& graph, Findings& findings);
void check_nodes_have_the_parts_of_their_kind(const Graph& graph, Findings& findings);
void check_host_arithmetic_is_known(const Graph& graph, Findings& findings);
// Storages.
void check_shared_bytes_come_from_an_operand(const Graph& graph, Findings& findings);
void check_views_lie_inside_their_storage(const Graph& graph, Findings& findings);
void check_updates_make_the_next_version(const Graph& graph, Findings& findings);
void check_updates_keep_the_type(const Graph& graph, Findings& findings);
void check_no_byte_is_updated_twice_at_once(const Graph& graph, Findings& findings);
void check_constants_are_never_updated(const Graph& graph, Findings& findings);
// Order.
void check_lines_stand_in_dependence_order(const Graph& graph, Findings& findings);
void check_versions_follow_the_operands(const Graph& graph, Findings& findings);
void check_updates_are_totally_ordered(const Graph& graph, Findings& findings);
void check_readers_precede_the_update(const Graph& graph, Findings& findings);
void check_outputs_are_final(const Graph& graph, Findings& findings);
// Control.
void check_variables_wait_for_nobody(const Graph& graph, Findings& findings);
void check_control_stays_in_its_scope(const Graph& graph, Findings& findings);
// What rewriting adds.
void check_swaps_come_in_pairs(const Graph& graph, Findings& findings);
void check_clones_repeat_their_original(const Graph& graph, Findings& findings);

struct Invariant {
  std::string_view code;
  std::string_view claim;  // what holds, in a few words
  Check check;
};

inline constexpr std::array kInvariants = {
    Invariant{"V01", "ids are in range", check_ids_are_in_range},
    Invariant{"V02", "names are unique", check_names_are_unique},
    Invariant{"V03", "types are sound", check_types_are_sound},
    Invariant{"V04", "sizes add up", check_sizes_add_up},
    Invariant{"V05", "nodes have the parts of their kind",
              check_nodes_have_the_parts_of_their_kind},
    Invariant{"V06", "host arithmetic is known", check_host_arithmetic_is_known},
    Invariant{"V07", "shared bytes come from an operand", check_shared_bytes_come_from_an_operand},
    Invariant{"V08", "views lie inside their storage", check_views_lie_inside_their_storage},
    Invariant{"V09", "updates make the next version", check_updates_make_the_next_version},
    Invariant{"V10", "updates keep the type", check_updates_keep_the_type},
    Invariant{"V11", "no byte is updated twice at once", check_no_byte_is_updated_twice_at_once},
    Invariant{"V12", "constants are never updated", check_constants_are_never_updated},
    Invariant{"V13", "lines stand in dependence order", check_lines_stand_in_dependence_order},
    Invariant{"V14", "versions follow the operands", check_versions_follow_the_operands},
    Invariant{"V15", "updates are totally ordered", check_updates_are_totally_ordered},
    Invariant{"V16", "readers precede the update", check_readers_precede_the_update},
    Invariant{"V17", "outputs are final", check_outputs_are_final},
    Invariant{"V18", "variables wait for nobody", check_variables_wait_for_nobody},
    Invariant{"V19", "control stays in its scope", check_control_stays_in_its_scope},
    Invariant{"V20", "swaps come in pairs", check_swaps_come_in_pairs},
    Invariant{"V21", "clones repeat their original", check_clones_repeat_their_original},
};

}  // namespace ebb
