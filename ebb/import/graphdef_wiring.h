// Who reads what in a GraphDef, and an order that runs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/import/graphdef_node.h"

namespace ebb {

// One input of a node, resolved.
struct Wire {
  std::uint32_t node = 0;  // its number in the file
  std::uint32_t result = 0;
  bool is_control = false;
  bool closes_loop = false;  // from NextIteration to Merge: one round later
};

struct Wiring {
  std::vector<Wire> wires;
  std::vector<std::uint32_t> starts;  // of each node's wires; one more at the end
  // The nodes in an order that runs: the file's own if it does, otherwise the one that stays
  // nearest to it.
  std::vector<std::uint32_t> order;
  std::unordered_map<std::string_view, std::uint32_t> numbers;  // by name

  [[nodiscard]] std::span<const Wire> inputs(std::size_t node) const {
    return std::span(wires).subspan(starts[node], starts[node + 1] - starts[node]);
  }
};

// O(nodes log nodes + edges). Errors: names that are missing, wrong or given twice; inputs that
// nobody makes; cycles.
[[nodiscard]] Result<Wiring> wire_up(const GraphDefView& graph);

}  // namespace ebb
