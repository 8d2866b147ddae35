// Clones: what computes a node of the original again.
#include "ebb/graph/repeatable.h"
#include "ebb/rewrite/proof_nodes.h"

namespace ebb {

Difference NodeProver::is_no_clone(NodeId node, NodeId clone, std::string_view why) const {
  return differ("S07", node, clone, "'{}' does not compute '{}' again: {}: {} is to repeat {}",
                rewritten_.name(clone), original_.name(node), why, quoted(rewritten_, clone),
                quoted(original_, node));
}

std::optional<Difference> NodeProver::take_clone(NodeId node, NodeId clone) {
  ++proof_.clones;
  const auto refuse = [&](std::string_view why) { return is_no_clone(node, clone, why); };
  if (!original_.is_op(node)) return refuse("that is given from outside");
  if (original_.effect(node) != Effect::kPure) {
    return refuse(original_.effect(node) == Effect::kRandom ? "that is random and runs once"
                                                            : "that has an effect and runs once");
  }
  if (original_.updates_something(node)) return refuse("that updates an operand");
  if (find_handle(original_, node).valid()) {
    return refuse("that reads through a handle, behind which anything may change");
  }
  if (steers_control_flow(original_, node)) return refuse("that steers control flow");
  if (const auto what = what_changed(node, clone); !what.empty()) {
    return refuse(fmt::format("{} is another", what));
  }
  if (const auto what = compare_operands(node, clone); !what.empty()) {
    return refuse(fmt::format("it {}", what));
  }
  compare_controls(node, clone);
  if (auto found = check_scope(clone, node)) return found;
  return take_clone_results(node, clone);
}

std::optional<Difference> NodeProver::take_clone_results(NodeId node, NodeId clone) {
  const auto refuse = [&](std::string_view why) { return is_no_clone(node, clone, why); };
  const ScalarId scalar = original_.scalar_result(node);
  const ScalarId scalar_now = rewritten_.scalar_result(clone);
  const auto results = original_.results(node);
  const auto results_now = rewritten_.results(clone);
  if (scalar.valid() != scalar_now.valid() || results.size() != results_now.size()) {
    return refuse("it has other results");
  }
  if (scalar.valid()) {
    if (original_.dtype(scalar) != rewritten_.dtype(scalar_now)) {
      return refuse("the type of its result is another");
    }
    scalar_origins_[scalar_now.index()] = scalar;
  }
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    const TensorId result = results[i];
    const TensorId result_now = results_now[i];
    if (!matching_.same_type(result, result_now)) {
      return refuse("the type of a result is another");
    }
    if (!lies_alike(result, result_now)) {
      return refuse(fmt::format("%{} lies elsewhere than a copy of %{} would",
                                rewritten_.name(result_now), original_.name(result)));
    }
    holdings_[result_now.index()] = values_.held(result);
    stands_for_[result_now.index()] = result;
    const StorageId storage_now = rewritten_.storage(result_now);
    if (rewritten_.root(storage_now) == result_now) {
      // Between the elements of a result nobody has written yet, here or there.
      extracts_[storage_now.index()] = values_.extract(original_.storage(result));
    }
  }
  return {};
}

// Whether both bring bytes into being, or both are views of the same place of the same bytes.
bool NodeProver::lies_alike(TensorId of_original, TensorId of_clone) const {
  const StorageId storage = original_.storage(of_original);
  const StorageId storage_now = rewritten_.storage(of_clone);
  const bool begins = original_.root(storage) == of_original;
  const bool begins_now = rewritten_.root(storage_now) == of_clone;
  if (begins || begins_now) return begins && begins_now;
  const Bytes offset = original_.offset(of_original);
  const Bytes offset_now = rewritten_.offset(of_clone);
  if (is(rewritten_.root(storage_now)) == original_.root(storage)) return offset == offset_now;
  const Extract& extract = values_.extract(storage);
  const Extract& extract_now = extracts_[storage_now.index()];
  const std::int64_t place = values_.place(of_original);
  const TensorType& type = original_.type(of_original);
  return extract.storage == extract_now.storage && offset_now.count + extract_now.shift == place &&
         extract.covers(place, type) && extract_now.covers(place, type);
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
