// Clones: what computes a node of the original again.
#include "ebb/rewrite/proof_nodes.h"

namespace ebb {
namespace {

// The number of the operand whose next version the result is.
std::optional<std::size_t> find_updated(const Graph& graph, NodeId node, TensorId result) {
  const auto operands = graph.operands(node);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].access == Access::kUpdate &&
        graph.storage(operands[i].tensor) == graph.storage(result) &&
        graph.offset(operands[i].tensor) == graph.offset(result)) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace

Difference NodeProver::is_no_clone(NodeId node, NodeId clone, std::string_view why) const {
  return differ("S07", node, clone, "'{}' does not compute '{}' again: {}: {} is to repeat {}",
                rewritten_.name(clone), original_.name(node), why, quoted(rewritten_, clone),
                quoted(original_, node));
}

// That the clone is of something that may run again, and has its operator, attributes and types, is
// an invariant of the rewritten graph (V21); that those are the original's is seen at their line.
std::optional<Difference> NodeProver::take_clone(NodeId node, NodeId clone) {
  ++proof_.clones;
  const auto refuse = [&](std::string_view why) { return is_no_clone(node, clone, why); };
  if (const auto what = what_changed(node, clone); !what.empty()) {
    return refuse(fmt::format("{} is another", what));
  }
  if (const auto what = compare_operands(node, clone); !what.empty()) {
    return refuse(fmt::format("it {}", what));
  }
  compare_controls(node, clone);
  if (original_.updates_something(node)) {
    // It waits for who reads what it overwrites; its clone overwrites copies.
    if (!dependence_) dependence_.emplace(original_);
    for (const Dependence::Edge& edge : dependence_->before(node)) {
      if (edge.reason != Dependence::Reason::kWriteAfterRead) continue;
      lost_edges_.push_back({edge.node, node, clone});
    }
  }
  if (auto found = check_scope(clone, node)) return found;
  const auto results = original_.results(node);
  const auto results_now = rewritten_.results(clone);
  // The original's line may come later.
  if (results.size() != results_now.size()) return refuse("it has other results");
  if (const ScalarId scalar = rewritten_.scalar_result(clone); scalar.valid()) {
    scalar_origins_[scalar.index()] = original_.scalar_result(node);
  }
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    if (auto found = take_clone_result(node, results[i], clone, results_now[i])) return found;
  }
  return {};
}

std::optional<Difference> NodeProver::take_clone_result(NodeId node, TensorId result, NodeId clone,
                                                        TensorId result_now) {
  const StorageId storage_now = rewritten_.storage(result_now);
  const Extract& extract = extracts_[storage_now.index()];
  const Spot spot{.begins = rewritten_.root(storage_now) == result_now,
                  .root = is(rewritten_.root(storage_now)),
                  .extract = extract,
                  .place = rewritten_.offset(result_now).count + extract.shift};
  const auto updated = find_updated(original_, node, result);
  const bool is_same_update = updated && updated == find_updated(rewritten_, clone, result_now);
  if (!is_same_update && !lie_alike(values_.spot(result), spot, original_.type(result))) {
    return is_no_clone(node, clone,
                       fmt::format("%{} lies elsewhere than a copy of %{} would",
                                   rewritten_.name(result_now), original_.name(result)));
  }
  holdings_[result_now.index()] = values_.held(result);
  stands_for_[result_now.index()] = result;
  // Between the elements of a result nobody has written yet, here or there.
  if (spot.begins) extracts_[storage_now.index()] = values_.extract(original_.storage(result));
  return {};
}

// What is made in a branch is there when the branch runs; what is made in another frame is there
// another number of times.
std::optional<Difference> NodeProver::check_scope(NodeId added, NodeId source) const {
  const ScopeId scope = matching_.origin(rewritten_.scope(added));
  if (runs_inside(original_, scope, original_.scope(source))) return {};
  return differ("S11", source, added,
                "'{}' stands outside the scope of '{}', whose results it holds: {} and {}",
                rewritten_.name(added), original_.name(source), quoted(rewritten_, added),
                quoted(original_, source));
}

}  // namespace ebb
