// Which bytes an instruction touches, in the arena and in the host slab.
#pragma once

#include <vector>

#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/program.h"

namespace ebb {

struct ByteAccess {
  Bytes begin;
  Bytes end;
  bool is_on_host = false;
  bool writes = false;

  [[nodiscard]] bool conflicts_with(const ByteAccess& other) const {
    return (writes || other.writes) && is_on_host == other.is_on_host && begin < other.end &&
           other.begin < end;
  }
};

// Operands from their first element to their last, results, and all that is served in the arena.
// None is empty.
std::vector<ByteAccess> accesses_of(const Graph& graph, const Program& program,
                                    const Instruction& instruction);

}  // namespace ebb
