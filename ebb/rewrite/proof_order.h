// Whether everything that has to wait still does. Part of proof.h.
#pragma once

#include <optional>

#include "ebb/rewrite/proof_matching.h"
#include "ebb/rewrite/proof_nodes.h"

namespace ebb {

// Random operations and effects, in the order of lines (docs/decisions, 10: the graph itself does
// not order random operations). Every node of the original must have a counterpart.
std::optional<Difference> find_moved_effect(const Matching& matching);

// The orders that `nodes` found no edge for, and which matter: each control edge of the original;
// and between other nodes, that of an effect or a random operation which precedes (or is) the first
// and one that follows (or is) the second. That all other orders are kept follows from how operands
// were compared: who reads a copy or a clone waits for what it was made from.
std::optional<Difference> find_lost_order(const Matching& matching, const NodeProver& nodes);

}  // namespace ebb
