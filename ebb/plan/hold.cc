#include "ebb/plan/hold.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <ranges>
#include <vector>

#include "ebb/graph/dependence.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/views.h"
#include "ebb/order/arrivals.h"
#include "ebb/order/in_place.h"
#include "ebb/order/liveness.h"
#include "ebb/order/variables.h"
#include "ebb/rewrite/lms_graph.h"

namespace ebb {
namespace {

class Holder {
 public:
  Holder(Rewriter& rewriter, std::span<const Bytes> workspaces, const HoldOptions& options)
      : rewriter_(rewriter),
        graph_(rewriter.graph()),
        workspaces_(workspaces),
        options_(options),
        variables_(find_variables(graph_)),
        lives_(find_lives(graph_)),
        curve_(memory_curve(graph_, lives_)),
        takes_over_(find_takeovers(graph_, lives_, sizes_of_storages(),
                                   std::vector<bool>(graph_.storage_count(), true))),
        lines_(graph_.order().begin(), graph_.order().end()),
        released_below_(lines_.size()),
        lookers_below_(lines_.size()) {
    for (const NodeId node : lines_) {
      if (graph_.op(node) != kSwapOut) continue;
      const TensorId source = graph_.operands(node)[0].tensor;
      const std::uint32_t last = lives_[graph_.storage(source).index()].last;
      released_below_[last].push_back({node, size_of(source)});
    }
  }

  Held run() {
    const Dependence dependence(graph_);
    if (!options_.runs_as_a_whole) find_training_step(dependence);
    find_lookers(dependence);
    for (std::uint32_t line = 0; line < lines_.size(); ++line) {
      const NodeId node = lines_[line];
      if (is_large(node)) {
        wait_for_releases(node, line);
        wait_for_lookers(node);
        wait_for_last(node);
      } else if (graph_.op(node) == kSwapIn) {
        wait_for_releases(node, line);
        wait_for_line(node, line);
      }
      for (const Leaving& each : released_below_[line]) {
        leaving_.push_back(each);
        still_there_ += each.size;
      }
      for (const Looker& each : lookers_below_[line]) looking_.push_back(each);
    }
    rewriter_.settle();
    return held_;
  }

 private:
  // A copy to the host, and how many bytes it reads.
  struct Leaving {
    NodeId swap_out;
    Bytes size;
  };
  // Who looks at a large tensor, and what it waits for.
  struct Looker {
    NodeId node;
    Bytes size;
    std::vector<NodeId> before;
  };

  [[nodiscard]] std::vector<Bytes> sizes_of_storages() const {
    std::vector<Bytes> sizes;
    for (const StorageId storage : graph_.storages()) {
      sizes.push_back(variables_.held(graph_, storage).value_or(Bytes{}));
    }
    return sizes;
  }

  [[nodiscard]] Bytes size_of(TensorId tensor) const {
    const StorageId storage = graph_.storage(tensor);
    if (graph_.residence(storage) == Residence::kHost) return {};
    return variables_.held(graph_, storage).value_or(Bytes{});
  }

  // Backward operations, what follows them, and what they wait for.
  void find_training_step(const Dependence& dependence) {
    phases_ = find_phases(graph_, {});
    is_in_step_.assign(graph_.node_count(), false);
    for (const NodeId node : lines_ | std::views::reverse) {
      if (phases_[node.index()] != LmsPhase::kForward) is_in_step_[node.index()] = true;
      if (!is_in_step_[node.index()]) continue;
      for (const Dependence::Edge& edge : dependence.before(node)) {
        is_in_step_[edge.node.index()] = true;
      }
    }
  }

  // Those of the step, below the line from which on the plan counts on their having looked: they
  // can, and what they look at has no other use.
  void find_lookers(const Dependence& dependence) {
    std::vector<std::uint32_t> line_of(graph_.node_count());
    std::vector<std::uint32_t> last_use(graph_.storage_count());
    std::vector<NodeId> lookers;
    for (std::uint32_t line = 0; line < lines_.size(); ++line) {
      const NodeId node = lines_[line];
      line_of[node.index()] = line;
      if (looks_at_large(node)) {
        if (options_.runs_as_a_whole || is_in_step_[node.index()]) lookers.push_back(node);
        continue;
      }
      if (makes_only_views(graph_, node)) continue;
      for (const TensorId result : graph_.results(node)) {
        last_use[graph_.storage(result).index()] = line;
      }
      for (const Operand& operand : graph_.operands(node)) {
        if (operand.tensor.valid()) last_use[graph_.storage(operand.tensor).index()] = line;
      }
    }
    // Who takes over the bytes does so at that line, and needs them for himself.
    for (const StorageId taken : takes_over_) {
      if (taken.valid()) --last_use[taken.index()];
    }
    for (const NodeId node : lookers) {
      auto below = static_cast<std::uint32_t>(lines_.size());
      Looker looker{.node = node, .size = {}, .before = {}};
      for (const Operand& operand : graph_.operands(node)) {
        if (!operand.tensor.valid() || !counts(size_of(operand.tensor))) continue;
        below = std::min(below, last_use[graph_.storage(operand.tensor).index()]);
        looker.size += size_of(operand.tensor);
      }
      for (const Dependence::Edge& edge : dependence.before(node)) {
        below = std::max(below, line_of[edge.node.index()]);
        if (graph_.is_op(edge.node)) looker.before.push_back(edge.node);
      }
      lookers_below_[below].push_back(std::move(looker));
    }
  }

  // As `Shape` does, in no time, but TensorFlow keeps the tensor until then.
  [[nodiscard]] bool looks_at_large(NodeId node) const {
    if (!graph_.is_op(node) || is_copy(graph_.op(node)) || !graph_.runs_on_host(node)) return false;
    const auto operands = graph_.operands(node);
    return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return operand.tensor.valid() && counts(size_of(operand.tensor));
    });
  }

  [[nodiscard]] bool may_be_forward_alone(NodeId node) const {
    return !options_.runs_as_a_whole && phases_[node.index()] == LmsPhase::kForward;
  }

  // Whether it runs on the device and touches, or needs for itself, much of its memory.
  [[nodiscard]] bool is_large(NodeId node) const {
    if (!options_.runs_as_a_whole && !is_in_step_[node.index()]) return false;
    if (!graph_.is_op(node) || is_copy(graph_.op(node)) || graph_.runs_on_host(node)) return false;
    if (makes_only_views(graph_, node)) return false;
    const auto operands = graph_.operands(node);
    const auto results = graph_.results(node);
    const Bytes workspace = workspace_of(node);
    return (workspace > Bytes{} && workspace >= options_.large) ||
           std::any_of(operands.begin(), operands.end(),
                       [&](const Operand& operand) {
                         return operand.tensor.valid() && (counts(size_of(operand.tensor)) ||
                                                           is_large_arrival(node, operand));
                       }) ||
           std::any_of(results.begin(), results.end(),
                       [&](TensorId result) { return counts(size_of(result)); });
  }
  [[nodiscard]] bool is_large_arrival(NodeId node, const Operand& operand) const {
    return reads_arrival(graph_, node, operand.tensor) &&
           counts(graph_.size(graph_.storage(operand.tensor)).value_or(Bytes{}));
  }
  [[nodiscard]] bool counts(Bytes size) const { return size > Bytes{} && size >= options_.large; }
  [[nodiscard]] Bytes workspace_of(NodeId node) const {
    return node.index() < workspaces_.size() ? workspaces_[node.index()] : Bytes{};
  }

  // By the lines, at the line of this node.
  [[nodiscard]] Bytes held_at(NodeId node, std::uint32_t line) const {
    // The costs have the workspace that a graph's text gives.
    Bytes held = curve_.device[line] - graph_.workspace(node) + workspace_of(node);
    for (const TensorId result : graph_.results(node)) {
      const StorageId storage = graph_.storage(result);
      // It counts as that one does.
      if (graph_.root(storage) == result && takes_over_[storage.index()].valid()) {
        held -= size_of(result);
      }
    }
    return held;
  }

  void wait_for_releases(NodeId node, std::uint32_t line) {
    const Bytes lines = held_at(node, line);
    Bytes still_there = still_there_;
    auto next = leaving_.begin();
    for (; next != leaving_.end() && lines + still_there > options_.budget; ++next) {
      const NodeId maker = graph_.producer(graph_.operands(next->swap_out)[0].tensor);
      if (may_be_forward_alone(node) && !rewriter_.waits(node, maker)) break;
      if (!rewriter_.waits(node, next->swap_out) && delay(node, next->swap_out)) {
        ++held_.release_edges;
      }
      still_there -= next->size;
    }
    if (graph_.op(node) == kSwapIn)
      return;  // nobody else waits for it: the next one does for himself
    leaving_.erase(leaving_.begin(), next);
    still_there_ = still_there;
  }

  void wait_for_last(NodeId node) {
    const NodeId last = last_large_;
    last_large_ = node;
    if (!last.valid() || may_be_forward_alone(node) || rewriter_.waits(node, last)) return;
    if (delay(node, last)) ++held_.order_edges;
  }

  // Who runs a part of the graph comes to run no more by this than what looks at that part; the
  // backward phase waits for the others.
  void wait_for_lookers(NodeId node) {
    const bool is_part = may_be_forward_alone(node);
    if (!is_part) {
      std::move(passed_over_.begin(), passed_over_.end(), std::back_inserter(looking_));
      passed_over_.clear();
    }
    for (Looker& looker : looking_) {
      if (is_part && !std::all_of(looker.before.begin(), looker.before.end(),
                                  [&](NodeId before) { return rewriter_.waits(node, before); })) {
        passed_over_.push_back(std::move(looker));
      } else if (!rewriter_.waits(node, looker.node) && delay(node, looker.node)) {
        ++held_.order_edges;
      }
    }
    looking_.clear();
  }

  // A swap-in may stand far below its trigger, where its reader waits for nobody in between.
  // Who looks is waited for where there would be too little room: edges to the host are slow.
  void wait_for_line(NodeId swap_in, std::uint32_t line) {
    const auto triggers = graph_.controls(swap_in);
    if (std::all_of(triggers.begin(), triggers.end(),
                    [&](NodeId trigger) { return may_be_forward_alone(trigger); })) {
      return;
    }
    Bytes room = options_.budget - held_at(swap_in, line) - still_there_;
    std::vector<NodeId> awaited;
    if (last_large_.valid()) awaited.push_back(last_large_);
    for (const Looker& looker : looking_) {
      room -= looker.size;
      if (room < Bytes{}) awaited.push_back(looker.node);
    }
    for (const NodeId node : awaited) {
      if (!rewriter_.waits(swap_in, node) && delay(swap_in, node)) ++held_.order_edges;
    }
  }

  bool delay(NodeId node, NodeId after) {
    const bool done = rewriter_.apply(DelayDecision{node, after}).has_value();
    if (!done) ++held_.refused;
    return done;
  }

  Rewriter& rewriter_;
  const Graph& graph_;
  std::span<const Bytes> workspaces_;
  const HoldOptions& options_;
  Variables variables_;
  std::vector<Life> lives_;
  MemoryCurve curve_;
  std::vector<StorageId> takes_over_;                 // by storage, as find_takeovers has it
  std::vector<NodeId> lines_;                         // as they stood before any delay
  std::vector<std::vector<Leaving>> released_below_;  // by line: which counts their bytes last
  std::deque<Leaving> leaving_;                       // for whose end nobody has waited
  Bytes still_there_;                                 // of these
  std::vector<std::vector<Looker>> lookers_below_;    // by line
  std::vector<Looker> looking_;                       // since the last large operation
  std::vector<Looker> passed_over_;                   // for whom nobody could wait then
  NodeId last_large_;
  std::vector<LmsPhase> phases_;  // by node, where that matters
  std::vector<bool> is_in_step_;
  Held held_;
};

}  // namespace

Held hold_to_lines(Rewriter& rewriter, std::span<const Bytes> workspaces,
                   const HoldOptions& options) {
  return Holder(rewriter, workspaces, options).run();
}

}  // namespace ebb
