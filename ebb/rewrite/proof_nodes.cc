// The nodes of the original in the rewritten graph. Clones are in proof_clones.cc, copies in
// proof_copies.cc.
#include "ebb/rewrite/proof_nodes.h"

#include <algorithm>
#include <ranges>

#include "ebb/graph/ebb_ops.h"

namespace ebb {

NodeProver::NodeProver(Matching& matching, const Values& values, const ProofOptions& options,
                       Proof& proof)
    : matching_(matching),
      values_(values),
      original_(matching.original()),
      rewritten_(matching.rewritten()),
      options_(options),
      proof_(proof),
      origins_(rewritten_.tensor_count()),
      stands_for_(rewritten_.tensor_count()),
      holdings_(rewritten_.tensor_count()),
      scalar_origins_(rewritten_.scalar_count()),
      extracts_(rewritten_.storage_count()),
      last_waiter_(original_.node_count()) {}

std::optional<Difference> NodeProver::take(NodeId node) {
  const NodeId origin = matching_.origin(node);
  if (origin.valid()) return take_original(origin, node);
  proof_.control_edges += rewritten_.controls(node).size();
  const NodeId repeated = rewritten_.clone_of(node);
  if (repeated.valid() && !matching_.is_added(repeated)) {
    return take_clone(matching_.origin(repeated), node);
  }
  return take_copy(node);
}

std::optional<Difference> NodeProver::take_original(NodeId node, NodeId now) {
  const std::string_view name = original_.name(node);
  if (const auto what = what_changed(node, now); !what.empty()) {
    return differ("S03", node, now, "{} of '{}' changed: {}", what, name, both_lines(node, now));
  }
  if (const auto what = compare_operands(node, now); !what.empty()) {
    return differ("S04", node, now, "'{}' {}: {}", name, what, both_lines(node, now));
  }
  compare_controls(node, now);
  return compare_results(node, now);
}

std::optional<Difference> NodeProver::compare_results(NodeId node, NodeId now) {
  const auto changed = [&](std::string_view what) {
    return differ("S05", node, now, "{} of '{}' changed: {}", what, original_.name(node),
                  both_lines(node, now));
  };
  const ScalarId scalar = original_.scalar_result(node);
  const ScalarId scalar_now = rewritten_.scalar_result(now);
  const auto results = original_.results(node);
  const auto results_now = rewritten_.results(now);
  if (scalar.valid() != scalar_now.valid() || results.size() != results_now.size()) {
    return changed("the number or kind of results");
  }
  if (scalar.valid()) {
    if (original_.dtype(scalar) != rewritten_.dtype(scalar_now)) return changed("the type");
    scalar_origins_[scalar_now.index()] = scalar;
  }
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    const TensorId result = results[i];
    const TensorId result_now = results_now[i];
    origins_[result_now.index()] = result;
    stands_for_[result_now.index()] = result;
    holdings_[result_now.index()] = values_.held(result);
    if (original_.name(result) != rewritten_.name(result_now))
      return changed("the name of a result");
    if (!matching_.same_type(result, result_now)) return changed("the type of a result");
    const StorageId storage_now = rewritten_.storage(result_now);
    const TensorId root = original_.root(original_.storage(result));
    const TensorId root_now = rewritten_.root(storage_now);
    if (is(root_now) != root || original_.offset(result) != rewritten_.offset(result_now)) {
      return changed("the place of a result");
    }
    extracts_[storage_now.index()] = values_.extract(original_.storage(result));
  }
  return {};
}

std::string_view NodeProver::what_changed(NodeId node, NodeId now) const {
  if (original_.kind(node) != rewritten_.kind(now)) return "the kind";
  if (original_.op(node) != rewritten_.op(now)) return "the operator";
  if (original_.effect(node) != rewritten_.effect(now)) return "the effect";
  if (original_.device(node) != rewritten_.device(now)) return "the device";
  if (original_.takes(node) != rewritten_.takes(now)) return "the time";
  if (original_.workspace(node) != rewritten_.workspace(now)) return "the workspace";
  if (!same_attributes(node, now)) return "an attribute";
  if (!same_values(original_.scalar_arguments(node), rewritten_.scalar_arguments(now))) {
    return "a number among the arguments";
  }
  if (matching_.is_added(now)) return "";  // a clone may stand elsewhere, and says what it is
  if (original_.scope(node) != matching_.origin(rewritten_.scope(now))) return "the scope";
  const NodeId repeated = rewritten_.clone_of(now);
  const NodeId repeats = repeated.valid() ? matching_.origin(repeated) : NodeId();
  if (original_.clone_of(node) != repeats || repeated.valid() != repeats.valid()) {
    return "the original";
  }
  return "";
}

bool NodeProver::same_attributes(NodeId node, NodeId now) const {
  // By key: files have them in one order or another, and mean the same.
  const auto without_notes = [](const Graph& graph, NodeId of) {
    std::vector<Attribute> out;
    for (const Attribute& attribute : graph.attributes(of)) {
      if (!is_note(graph.text(attribute.key))) out.push_back(attribute);
    }
    std::ranges::sort(out, {}, [&](const Attribute& each) { return graph.text(each.key); });
    return out;
  };
  return std::ranges::equal(without_notes(original_, node), without_notes(rewritten_, now),
                            [&](const Attribute& a, const Attribute& b) {
                              return a.is_list == b.is_list &&
                                     original_.text(a.key) == rewritten_.text(b.key) &&
                                     same_values(original_.items(a), rewritten_.items(b));
                            });
}

bool NodeProver::same_values(std::span<const Value> values, std::span<const Value> now) const {
  return std::equal(values.begin(), values.end(), now.begin(), now.end(),
                    [&](const Value& a, const Value& b) {
                      if (a.index() != b.index()) return false;
                      if (const auto* text = std::get_if<Text>(&a)) {
                        return original_.text(text->id) == rewritten_.text(std::get<Text>(b).id);
                      }
                      if (const auto* blob = std::get_if<Blob>(&a)) {
                        return original_.text(blob->id) == rewritten_.text(std::get<Blob>(b).id);
                      }
                      if (const auto* scalar = std::get_if<ScalarId>(&a)) {
                        return *scalar == scalar_origins_[std::get<ScalarId>(b).index()];
                      }
                      return same_value(a, b);
                    });
}

std::string NodeProver::compare_operands(NodeId node, NodeId now) {
  const auto before = original_.operands(node);
  const auto after = rewritten_.operands(now);
  if (before.size() != after.size()) {
    return fmt::format("has {} operand{} where the original has {}", after.size(),
                       after.size() == 1 ? "" : "s", before.size());
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    std::string what = compare_operand(node, now, i);
    if (!what.empty()) return what;
  }
  return compare_overlaps(node, now);
}

// Whether an operation reads bytes that it updates decides what it computes.
std::string NodeProver::compare_overlaps(NodeId node, NodeId now) const {
  if (!original_.updates_something(node)) return {};
  const auto before = original_.operands(node);
  const auto after = rewritten_.operands(now);
  struct Updated {
    StorageId storage;
    std::size_t operand;
    auto operator<=>(const Updated&) const = default;
  };
  const auto updated_in = [](const Graph& graph, std::span<const Operand> operands) {
    std::vector<Updated> updated;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].access != Access::kUpdate) continue;
      updated.push_back({graph.storage(operands[i].tensor), i});
    }
    std::sort(updated.begin(), updated.end());
    return updated;
  };
  // The first updated operand in the same storage as this one.
  const auto find = [](const Graph& graph, const std::vector<Updated>& updated, TensorId tensor) {
    const StorageId storage = graph.storage(tensor);
    const auto found = std::lower_bound(updated.begin(), updated.end(), Updated{storage, 0});
    const bool is_there = found != updated.end() && found->storage == storage;
    return is_there ? found->operand : std::size_t(-1);
  };
  const std::vector<Updated> updated = updated_in(original_, before);
  const std::vector<Updated> updated_now = updated_in(rewritten_, after);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!before[i].tensor.valid() || before[i].access == Access::kUpdate) continue;
    if (find(original_, updated, before[i].tensor) ==
        find(rewritten_, updated_now, after[i].tensor)) {
      continue;
    }
    return fmt::format(
        "reads {}, and whether that lies in what it updates is not as in the original",
        described(after[i].tensor));
  }
  return {};
}

std::string NodeProver::compare_operand(NodeId node, NodeId now, std::size_t index) {
  const Operand& operand = original_.operands(node)[index];
  const Operand& operand_now = rewritten_.operands(now)[index];
  const TensorId tensor = operand.tensor;
  const TensorId tensor_now = operand_now.tensor;
  if (operand.position != operand_now.position) return "has other operand lists";
  if (tensor.valid() != tensor_now.valid()) {
    return tensor.valid()
               ? fmt::format("does not read %{} any more", original_.name(tensor))
               : fmt::format("reads {}, and the original nothing there", described(tensor_now));
  }
  if (!tensor.valid()) return {};
  const auto verb = [](Access access) { return access == Access::kRead ? "reads" : "updates"; };
  const bool on_other_side =
      original_.type(tensor).residence != rewritten_.type(tensor_now).residence;
  const bool is_same = is(tensor_now) == tensor;
  // A clone updates snapshots, which are there for it (V21); the original its own operands.
  const bool updates_a_copy =
      operand.access == Access::kUpdate && !is_same && !matching_.is_added(now);
  const Holding& held = values_.held(tensor);
  const Holding& held_now = holding(tensor_now);
  if (held_now.tensor != held.tensor || held_now.codec != held.codec ||
      operand.access != operand_now.access || on_other_side || updates_a_copy) {
    return fmt::format("{} {} where the original {} %{}", verb(operand_now.access),
                       described(tensor_now), verb(operand.access), original_.name(tensor));
  }
  if (is_same) return {};
  if (held_now.serving != held.serving) {
    for (const Holding* each : {&held, &held_now}) {
      if (std::string why = unserved(now, index, *each); !why.empty()) return why;
    }
  }
  if (is_out_of_reach(tensor_now, now, original_.producer(tensor))) {
    return fmt::format("reads {} from outside the branch in which that is made",
                       described(tensor_now));
  }
  if (!values_.is_copy_of(stands_for_[tensor_now.index()], tensor)) {
    lost_edges_.push_back({original_.producer(tensor), node, now});
  }
  freed_readers_.push_back({node, tensor});
  return {};
}

// Whether a value is made in a branch that need not run when its reader does. Readers of what the
// original makes in a branch are the original's own business.
bool NodeProver::is_out_of_reach(TensorId source, NodeId reader, NodeId maker) const {
  const ScopeId made_in = matching_.origin(rewritten_.scope(rewritten_.producer(source)));
  return made_in != original_.scope(maker) &&
         !runs_inside(original_, matching_.origin(rewritten_.scope(reader)), made_in);
}

std::string NodeProver::unserved(NodeId now, std::size_t operand, const Holding& value) const {
  if (value.serving == nullptr || serves(*value.serving, rewritten_, now, operand)) return {};
  return fmt::format("reads {}, of which codec '{}' gives back too little for it",
                     described(rewritten_.operands(now)[operand].tensor), value.serving->name);
}

void NodeProver::compare_controls(NodeId node, NodeId now) {
  const auto before = original_.controls(node);
  const auto after = rewritten_.controls(now);
  if (before.empty() && after.empty()) return;
  for (const NodeId control : after) {
    const NodeId origin = matching_.origin(control);
    if (origin.valid()) last_waiter_[origin.index()] = now;
  }
  std::size_t kept = 0;
  for (const NodeId control : before) {
    if (last_waiter_[control.index()] == now) {
      ++kept;
    } else {
      lost_edges_.push_back({control, node, now, true});
    }
  }
  if (!matching_.is_added(now)) proof_.control_edges += after.size() - std::min(kept, after.size());
}

std::string NodeProver::described(TensorId tensor) const {
  const std::string_view name = rewritten_.name(tensor);
  const Holding& held = holding(tensor);
  if (is(tensor).valid()) return fmt::format("%{}", name);
  const bool host = rewritten_.type(tensor).residence == Residence::kHost;
  return fmt::format("%{} (holds %{}{}{})", name, original_.name(held.tensor),
                     held.codec.empty() ? "" : fmt::format(" encoded by '{}'", held.codec),
                     host ? " on the host" : "");
}

std::string NodeProver::both_lines(NodeId node, NodeId now) const {
  return fmt::format("{} became {}", quoted(original_, node), quoted(rewritten_, now));
}

}  // namespace ebb
