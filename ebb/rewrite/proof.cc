#include "ebb/rewrite/proof.h"

#include <utility>

#include <fmt/format.h>

#include "ebb/graph/graph_check.h"
#include "ebb/graph/verify.h"
#include "ebb/import/graphdef_file_node.h"
#include "ebb/rewrite/proof_matching.h"
#include "ebb/rewrite/proof_nodes.h"
#include "ebb/rewrite/proof_order.h"
#include "ebb/rewrite/proof_splits.h"
#include "ebb/rewrite/proof_values.h"

namespace ebb {
namespace {

std::optional<Difference> find_violation(const Graph& rewritten) {
  const auto found = find_violations(rewritten, 1);
  if (found.empty()) return {};
  const Violation& violation = found[0];
  return Difference{std::string(violation.code), NodeId(), violation.node,
                    fmt::format("the rewritten graph is wrong by itself: {}{}{}", violation.message,
                                violation.node.valid() ? ": " : "",
                                violation.node.valid() ? quoted(rewritten, violation.node) : "")};
}

std::string returned(const Graph& graph) {
  constexpr std::size_t kShown = 16;
  std::string line = "return";
  const auto outputs = graph.outputs();
  for (std::size_t i = 0; i < outputs.size() && i < kShown; ++i) {
    line += fmt::format("{} %{}", i == 0 ? "" : ",", graph.name(outputs[i]));
  }
  if (outputs.size() > kShown) line += ", ...";
  return line;
}

std::optional<Difference> compare_outputs(const Matching& matching, const NodeProver& nodes) {
  const Graph& original = matching.original();
  const Graph& rewritten = matching.rewritten();
  const auto before = original.outputs();
  const auto after = rewritten.outputs();
  const auto differ = [&](NodeId node, NodeId now, std::string what) {
    return Difference{
        "S08", node, now,
        fmt::format("{}: '{}' became '{}'", what, returned(original), returned(rewritten))};
  };
  if (before.size() != after.size()) {
    return differ(
        NodeId(), NodeId(),
        fmt::format("the graph returns {} tensors, the original {}", after.size(), before.size()));
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (nodes.is(after[i]) == before[i]) continue;
    return differ(original.producer(before[i]), rewritten.producer(after[i]),
                  fmt::format("output {} is %{}, in the original %{}", i + 1,
                              rewritten.name(after[i]), original.name(before[i])));
  }
  return {};
}

tl::expected<Proof, Difference> compare_call_by_call(const Graph& original, const Graph& rewritten,
                                                     const ProofOptions& options) {
  const auto refuse = [](std::optional<Difference>& found) {
    return tl::make_unexpected(std::move(*found));
  };
  Matching matching(original, rewritten);
  if (auto found = matching.find_missing()) return refuse(found);
  Proof proof;
  const Values values(original, options);
  NodeProver nodes(matching, values, options, proof);
  for (const NodeId node : rewritten.order()) {
    if (auto found = nodes.take(node)) return refuse(found);
  }
  if (auto found = compare_outputs(matching, nodes)) return refuse(found);
  if (auto found = find_moved_effect(matching)) return refuse(found);
  if (auto found = find_lost_order(matching, nodes)) return refuse(found);
  return proof;
}

}  // namespace

tl::expected<Proof, Difference> compare_computations(const Graph& original, const Graph& rewritten,
                                                     const ProofOptions& options) {
  if (!options.is_verified) {
    if (auto found = find_violation(rewritten)) return tl::make_unexpected(std::move(*found));
  }
  const std::vector<NodeId> split = find_split_calls(original, rewritten);
  auto proof = split.empty()
                   ? compare_call_by_call(original, rewritten, options)
                   : compare_call_by_call(with_split_calls(original, split), rewritten, options);
  if (proof) {
    proof->nodes = counted_nodes(original);
    proof->splits = split.size();
  } else if (NodeId& node = proof.error().original;
             node.valid() && node.index() >= original.node_count()) {
    node = split[node.index() - original.node_count()];
  }
  return proof;
}

Result<Proof> prove_same(const Graph& original, const Graph& rewritten,
                         const ProofOptions& options) {
  auto proof = compare_computations(original, rewritten, options);
  if (proof) return *proof;
  return fail(Error{.kind = ErrorKind::kRefused,
                    .code = std::move(proof.error().code),
                    .message = std::move(proof.error().message),
                    .place = {}});
}

Proof prove_rewrite(const Graph& original, const Graph& rewritten) {
  const auto proof = prove_same(original, rewritten, {.allow_lossy = true, .is_verified = true});
  EBB_CHECK_ON(rewritten, proof.has_value(), "the rewritten graph is not the original: {}",
               proof.error().message);
  return *proof;
}

std::string to_text(const Proof& proof) {
  std::string added;
  const auto add = [&](std::size_t count, std::string_view what) {
    if (count == 0) return;
    added +=
        fmt::format("{}{} {}{}", added.empty() ? "" : ", ", count, what, count == 1 ? "" : "s");
  };
  add(proof.swap_outs, "swap-out");
  add(proof.swap_ins, "swap-in");
  add(proof.encodes, "encoding");
  add(proof.decodes, "decoding");
  add(proof.snapshots, "snapshot");
  add(proof.clones, "clone");
  add(proof.splits, "split");
  add(proof.control_edges, "control edge");
  return fmt::format("{} {}; added: {}", proof.nodes,
                     proof.nodes == 1 ? "node computes the same" : "nodes compute the same",
                     added.empty() ? "nothing" : added);
}

}  // namespace ebb
