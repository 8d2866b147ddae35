// Readers of a storage that are to read a copy of it instead: what swapping and recomputing share.
//
// Before:  %t ──► view ──► r,   %t ──► r          (r reads the storage twice, once through a view)
// After:   copy ──► view's clone ──► r,   copy ──► r
// All edges of a reader are moved, whatever view they go through; each view is remade once a group,
// right below the copy (or below its last other operand, where that comes later). Nobody else's
// edges are touched.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "ebb/graph/graph.h"
#include "ebb/rewrite/decision.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {

// Why a rule does not apply.
struct Reason {
  std::string_view code;  // the entry in docs/errors.md
  std::string text;       // what follows "rule swap does not apply to %a: "
};
// Nothing, or the reason against it.
using Objection = std::optional<Reason>;

// That error. `what` is "%a" or "'a'".
[[nodiscard]] Error refused(std::string_view rule, std::string_view what, const Reason& reason);

// The tensor that is the whole storage of `tensor` in its version, or the reason why there is none
// that a copy could stand for: variables and constants, and what is updated afterwards.
tl::expected<TensorId, Reason> find_source(const Rewriter& rewriter, TensorId tensor);

// What speaks against moving the groups' readers over to copies of the source, each made after its
// group's trigger. Adds what remaking the views costs to `growth`.
Objection find_objection(const Rewriter& rewriter, TensorId source,
                         std::span<const ReaderGroup> groups, Totals& growth);
// Whether all sizes or durations together would become more than the verifier accepts.
Objection objection_to_growth(const Rewriter& rewriter, const Totals& growth);

// --- After find_objection found nothing.

// The scope in which a group's copy stands.
ScopeId scope_of_copy(const Rewriter& rewriter, TensorId source, const ReaderGroup& group);
// The first in line order.
NodeId first_reader(const Rewriter& rewriter, const ReaderGroup& group);
// Views are remade under their names with the suffix.
void move_readers(Rewriter& rewriter, TensorId source, TensorId copy, const ReaderGroup& group,
                  std::string_view suffix);

// Also for checks: whether the value may differ when the node runs a second time, later.
Objection objection_to_clone(const Rewriter& rewriter, NodeId original);

}  // namespace ebb
