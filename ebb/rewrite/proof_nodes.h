// Takes the lines of a rewritten graph one by one, says what their results hold, and where they
// differ from the original's. Part of proof.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ebb/graph/dependence.h"
#include "ebb/graph/graph.h"
#include "ebb/rewrite/codec.h"
#include "ebb/rewrite/proof.h"
#include "ebb/rewrite/proof_matching.h"
#include "ebb/rewrite/proof_values.h"

namespace ebb {

// An edge of the original, first -> second, that has no copy at `waiter`: the counterpart of
// `second`, or a clone of it. Either a control edge, or `second` reads what `first` made, and
// `waiter` another copy or clone that the original has of it.
struct LostEdge {
  NodeId first;
  NodeId second;
  NodeId waiter;  // of the rewritten graph
  bool is_control = false;
};

// A node of the original that reads a copy now, and for which the update of the tensor that it read
// need not wait any more.
struct FreedReader {
  NodeId reader;
  TensorId tensor;
};

class NodeProver {
 public:
  // All of these must outlive this object. `proof` gets the counts of what was added.
  NodeProver(Matching& matching, const Values& values, const ProofOptions& options, Proof& proof);

  // In line order. What a line differs in, or nothing. Lines after a difference are not taken.
  std::optional<Difference> take(NodeId node);

  // The tensor of the original that this one is, not a copy of it; not valid for what was added.
  [[nodiscard]] TensorId is(TensorId tensor) const { return origins_[tensor.index()]; }

  [[nodiscard]] const std::vector<LostEdge>& lost_edges() const { return lost_edges_; }
  [[nodiscard]] const std::vector<FreedReader>& freed_readers() const { return freed_readers_; }

 private:
  std::optional<Difference> take_original(NodeId node, NodeId now);
  std::optional<Difference> compare_results(NodeId node, NodeId now);
  std::optional<Difference> take_clone(NodeId node, NodeId clone);
  [[nodiscard]] std::string compare_overlaps(NodeId node, NodeId now) const;
  std::optional<Difference> take_clone_result(NodeId node, TensorId result, NodeId clone,
                                              TensorId result_now);
  [[nodiscard]] Difference is_no_clone(NodeId node, NodeId clone, std::string_view why) const;
  std::optional<Difference> take_copy(NodeId copy);
  std::optional<Difference> take_codec(NodeId copy, TensorId source, Holding& held);
  [[nodiscard]] bool is_out_of_reach(TensorId source, NodeId reader, NodeId maker) const;
  std::optional<Difference> check_scope(NodeId added, NodeId source) const;

  // What changed apart from operands, results and control edges ("the attributes"); empty: nothing.
  [[nodiscard]] std::string_view what_changed(NodeId node, NodeId now) const;
  [[nodiscard]] bool same_attributes(NodeId node, NodeId now) const;
  [[nodiscard]] bool same_values(std::span<const Value> values, std::span<const Value> now) const;
  // How the operands of `now` differ from those of `node` ("reads %b where 'x' reads %a"); empty:
  // they hold the same.
  std::string compare_operands(NodeId node, NodeId now);
  std::string compare_operand(NodeId node, NodeId now, std::size_t index);
  // "reads %a.back (...), which codec 'positive' ...", where the copy does not serve the node.
  [[nodiscard]] std::string unserved(NodeId now, std::size_t operand, const Holding& value) const;
  void compare_controls(NodeId node, NodeId now);

  [[nodiscard]] const Holding& holding(TensorId tensor) const { return holdings_[tensor.index()]; }
  [[nodiscard]] std::string described(TensorId tensor) const;

  template <class... Args>
  Difference differ(std::string_view code, NodeId node, NodeId now,
                    fmt::format_string<Args...> format, Args&&... args) const {
    return {std::string(code), node, now, fmt::format(format, std::forward<Args>(args)...)};
  }
  [[nodiscard]] std::string both_lines(NodeId node, NodeId now) const;

  Matching& matching_;
  const Values& values_;
  const Graph& original_;
  const Graph& rewritten_;
  const ProofOptions& options_;
  Proof& proof_;
  std::vector<TensorId> origins_;         // by tensor of the rewritten graph
  std::vector<TensorId> stands_for_;      // likewise: the tensor of the original that was copied
  std::vector<Holding> holdings_;         // by tensor of the rewritten graph
  std::vector<ScalarId> scalar_origins_;  // by scalar of the rewritten graph
  std::vector<Extract> extracts_;         // by storage of the rewritten graph
  std::vector<NodeId> last_waiter_;       // by node of the original: who waits for it, of late
  std::optional<Dependence> dependence_;  // of the original; built when first asked
  std::vector<LostEdge> lost_edges_;
  std::vector<FreedReader> freed_readers_;
};

}  // namespace ebb
