#include "ebb/plan/decide.h"

#include <algorithm>
#include <tuple>

#include "ebb/base/check.h"
#include "ebb/graph/ebb_ops.h"

namespace ebb {
namespace {

class Decider {
 public:
  Decider(const StepModel& model, const Evaluation& evaluation, Rewriter& rewriter)
      : model_(model),
        plan_(evaluation),
        rewriter_(rewriter),
        nodes_(evaluation.lines.size()),
        triggers_(evaluation.lines.size()),
        line_of_(model.operations.size()),
        readers_of_clone_(evaluation.lines.size()),
        readers_of_in_(evaluation.ins.size()),
        ins_of_(model.values.size()) {
    for (std::uint32_t line = 0; line < plan_.lines.size(); ++line) {
      const PlannedLine& it = plan_.lines[line];
      if (it.is_clone) continue;
      nodes_[line] = model.operations[it.operation].node;
      line_of_[it.operation] = line;
    }
    for (const PlannedRead& read : plan_.reads) {
      if (read.is_clone) {
        readers_of_clone_[read.copy].push_back(read.line);
      } else {
        readers_of_in_[read.copy].push_back(read.line);
      }
    }
    for (std::uint32_t in = 0; in < plan_.ins.size(); ++in) {
      if (!readers_of_in_[in].empty()) ins_of_[plan_.ins[in].value].push_back(in);
    }
  }

  std::optional<RefusedChoice> run() {
    for (auto line = static_cast<std::uint32_t>(plan_.lines.size()); line-- > 0;) {
      if (!plan_.lines[line].is_clone || readers_of_clone_[line].empty()) continue;
      if (auto refused = recompute(line)) return refused;
    }
    order_clones();
    for (std::uint32_t out = 0; out < plan_.outs.size(); ++out) {
      if (auto refused = swap(out)) return refused;
    }
    move_lines();
    return std::nullopt;
  }

 private:
  std::optional<RefusedChoice> recompute(std::uint32_t line) {
    const std::uint32_t value = plan_.lines[line].cloned;
    const TensorId tensor = model_.values[value].tensor;
    const std::vector<NodeId> readers = nodes_of(readers_of_clone_[line]);
    const NodeId trigger = find_trigger(value, readers_of_clone_[line], line);
    RecomputeDecision decision{.tensor = tensor, .groups = {{readers, trigger}}};
    if (auto refused = apply(decision, value, Means::kRecompute, trigger)) return refused;
    const Graph& graph = rewriter_.graph();
    for (const NodeId node : rewriter_.journal().back().added) {
      if (graph.clone_of(node) == graph.producer(tensor)) nodes_[line] = node;
    }
    triggers_[line] = trigger;
    return std::nullopt;
  }

  std::optional<RefusedChoice> swap(std::uint32_t out) {
    const std::uint32_t value = plan_.outs[out].value;
    SwapDecision decision{.tensor = model_.values[value].tensor, .groups = {}, .codec = {}};
    const std::vector<std::uint32_t>& ins = ins_of_[value];
    NodeId trigger;
    for (const std::uint32_t in : ins) {
      trigger = find_trigger(value, readers_of_in_[in], plan_.ins[in].line);
      if (!trigger.valid()) break;
      decision.groups.push_back({nodes_of(readers_of_in_[in]), trigger});
    }
    if (auto refused = apply(decision, value, Means::kSwap, trigger)) return refused;
    const Graph& graph = rewriter_.graph();
    std::size_t next = 0;
    for (const NodeId node : rewriter_.journal().back().added) {
      if (graph.op(node) == kSwapOut)
        moves_.push_back({node, plan_.outs[out].line, false, out, out});
      if (graph.op(node) != kSwapIn) continue;
      const std::uint32_t in = ins[next++];
      moves_.push_back({node, plan_.ins[in].line, true, in, out});
    }
    return std::nullopt;
  }

  std::optional<RefusedChoice> apply(const Decision& decision, std::uint32_t value, Means means,
                                     NodeId trigger) {
    if (!trigger.valid()) {
      return RefusedChoice{value, means, "no operation above its readers is waited for by all"};
    }
    const Status done = rewriter_.apply(decision);
    if (done) return std::nullopt;
    return RefusedChoice{value, means, done.error().message};
  }

  // The last operation above the line that is found to be one that all readers wait for; at least
  // they wait for what makes the value. Not valid when nothing does.
  NodeId find_trigger(std::uint32_t value, const std::vector<std::uint32_t>& readers,
                      std::uint32_t line) const {
    const std::uint32_t first = *std::min_element(readers.begin(), readers.end());
    NodeId trigger;
    std::uint32_t next = kNone;  // an operation
    if (plan_.lines[first].is_clone) {
      trigger = triggers_[first];
      next = operation_of(trigger);
    } else {
      next = model_.operations[plan_.lines[first].operation].waits_for;
    }
    for (; next != kNone; next = model_.operations[next].waits_for) {
      if (line_of_[next] >= line) continue;
      trigger = model_.operations[next].node;
      const bool is_waited_for =
          std::all_of(readers.begin(), readers.end(), [&](std::uint32_t reader) {
            return reader == first || rewriter_.waits(nodes_[reader], trigger);
          });
      if (is_waited_for) return trigger;
    }
    const std::uint32_t producer = model_.values[value].producer;
    return producer == kNone ? NodeId() : model_.operations[producer].node;
  }

  [[nodiscard]] std::uint32_t operation_of(NodeId node) const {
    const auto found = std::lower_bound(model_.operations.begin(), model_.operations.end(), node,
                                        [&](const StepModel::Operation& it, NodeId wanted) {
                                          return rewriter_.lines().is_before(it.node, wanted);
                                        });
    return found == model_.operations.end() || found->node != node
               ? kNone
               : static_cast<std::uint32_t>(found - model_.operations.begin());
  }

  // What the rule refuses stays higher up: that costs memory, which is counted afterwards.
  void move_below(NodeId node, NodeId line) {
    const MoveDecision decision{node, line};
    if (const Status moves = rewriter_.check(decision); !moves) return;
    const Status moved = rewriter_.apply(decision);
    EBB_CHECK(moved.has_value(), "a move that applies was refused: {}", moved.error().message);
  }

  // The rule puts each clone right above its first reader, and they come from the last to the
  // first: of two chains for one reader the second stands above the first, where it holds other
  // bytes.
  void order_clones() {
    NodeId last;
    for (const NodeId node : nodes_) {
      if (!node.valid()) continue;  // a clone that nobody reads
      if (last.valid() && rewriter_.lines().is_before(node, last)) move_below(node, last);
      last = node;
    }
  }

  // Of the copies above a line swap-outs come first, because they make room.
  void move_lines() {
    std::sort(moves_.begin(), moves_.end(), [](const Moved& a, const Moved& b) {
      return std::tie(a.line, a.is_in, a.number) < std::tie(b.line, b.is_in, b.number);
    });
    // A swap-in whose trigger is far above stands in the way of its swap-out.
    for (const Moved& moved : moves_) {
      const std::uint32_t out_line = moved.is_in ? plan_.outs[moved.out].line : 0;
      if (out_line == 0 || !rewriter_.lines().is_before(moved.node, nodes_[out_line - 1])) continue;
      move_below(moved.node, nodes_[moved.line - 1]);
    }
    std::uint32_t line = 0;
    NodeId last;  // of what is to stand above that line
    for (const Moved& moved : moves_) {
      if (moved.line == 0) continue;
      if (moved.line != line) last = nodes_[moved.line - 1];
      line = moved.line;
      if (rewriter_.lines().is_before(moved.node, last)) {
        move_below(moved.node, last);
      }
      if (rewriter_.lines().is_before(last, moved.node)) last = moved.node;
    }
  }

  [[nodiscard]] std::vector<NodeId> nodes_of(const std::vector<std::uint32_t>& lines) const {
    std::vector<NodeId> nodes;
    nodes.reserve(lines.size());
    for (const std::uint32_t line : lines) nodes.push_back(nodes_[line]);
    return nodes;
  }

  struct Moved {
    NodeId node;
    std::uint32_t line = 0;  // above which it is to stand
    bool is_in = false;
    std::uint32_t number = 0;  // of its kind
    std::uint32_t out = 0;     // its swap-out
  };

  const StepModel& model_;
  const Evaluation& plan_;
  Rewriter& rewriter_;
  std::vector<NodeId> nodes_;     // by line
  std::vector<NodeId> triggers_;  // by line, of clones
  std::vector<std::uint32_t> line_of_;
  std::vector<std::vector<std::uint32_t>> readers_of_clone_;
  std::vector<std::vector<std::uint32_t>> readers_of_in_;
  std::vector<std::vector<std::uint32_t>> ins_of_;  // by value, those that are read
  std::vector<Moved> moves_;
};

}  // namespace

std::optional<RefusedChoice> apply_choices(const StepModel& model, const Evaluation& evaluation,
                                           Rewriter& rewriter) {
  return Decider(model, evaluation, rewriter).run();
}

}  // namespace ebb
