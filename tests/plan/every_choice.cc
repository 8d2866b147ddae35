#include "tests/plan/every_choice.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/builder.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/plan/arena.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/simulate.h"
#include "ebb/rewrite/rewriter.h"
#include "tests/plan/dice.h"

namespace ebb {
namespace {

enum class Fate : std::uint8_t { kKept, kSwapped, kComputedAgain };

struct Choice {
  Fate fate = Fate::kKept;
  std::size_t out = 0;  // swapped: right below which lines of the original the copies stand
  std::size_t in = 0;
};

// A result of the forward part. Lines are those of the original.
struct Value {
  TensorId tensor;
  Bytes size;
  std::size_t made = 0;
  std::size_t last_early = 0;          // forward reader, or `made`
  std::vector<std::size_t> late;       // backward readers
  std::vector<std::size_t> made_from;  // values that its maker reads
  Duration time{0};                    // of its maker
};

// When the backward part needs a value, clones of its readers' operands included.
struct Need {
  std::size_t first = 0;
  std::size_t last = 0;
};

class Search {
 public:
  Search(const Graph& graph, const Device& device, Bytes budget, Duration known,
         const EveryChoiceOptions& options)
      : graph_(graph),
        device_(device),
        budget_(budget),
        limit_(options.limit),
        tries_every_line_(options.every_line) {
    best_.step = known;
    find_lines();
    choices_.resize(values_.size());
  }

  EveryChoice run() {
    choose_again(values_.size(), compute_time_);
    return best_;
  }

 private:
  void find_lines() {
    const auto order = graph_.order();
    line_.resize(graph_.node_count());
    for (std::size_t i = 0; i < order.size(); ++i) line_[order[i].index()] = i;
    loss_ = graph_.find_node("loss");
    const StepCosts costs = estimate_costs(graph_, device_).value();
    others_.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      others_[i] += costs.workspace[order[i].index()];
      times_.push_back(costs.compute[order[i].index()]);
      compute_time_ += times_.back();
    }
    for (const NodeId node : order) {
      for (const TensorId made : graph_.results(node)) {
        const bool is_value = graph_.is_op(node) && line_[node.index()] < line_[loss_.index()];
        const Value value = find_value(made, costs.compute[node.index()]);
        if (is_value) {
          values_.push_back(value);
        } else {
          add_other(value);
        }
      }
    }
  }

  // No views: each tensor is a storage.
  [[nodiscard]] Value find_value(TensorId tensor, Duration time) const {
    const std::size_t made = line_[graph_.producer(tensor).index()];
    Value value{.tensor = tensor,
                .size = graph_.size(graph_.storage(tensor)).value_or(Bytes{}),
                .made = made,
                .last_early = made,
                .late = {},
                .made_from = {},
                .time = time};
    for (std::size_t i = made; i < graph_.order().size(); ++i) {
      if (!reads(graph_, graph_.order()[i], tensor)) continue;
      if (i <= line_[loss_.index()]) {
        value.last_early = i;
      } else {
        value.late.push_back(i);
      }
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (reads(graph_, graph_.producer(tensor), values_[i].tensor)) value.made_from.push_back(i);
    }
    return value;
  }

  void add_other(const Value& value) {
    const NodeKind kind = graph_.kind(graph_.producer(value.tensor));
    const auto outputs = graph_.outputs();
    const bool is_returned =
        std::find(outputs.begin(), outputs.end(), value.tensor) != outputs.end();
    const bool is_state = kind == NodeKind::kParam || kind == NodeKind::kConst;
    const std::size_t last_read = value.late.empty() ? value.last_early : value.late.back();
    const std::size_t last = is_returned || is_state ? others_.size() - 1 : last_read;
    for (std::size_t i = kind == NodeKind::kOp ? value.made : 0; i <= last; ++i) {
      others_[i] += value.size;
    }
  }

  static bool reads(const Graph& graph, NodeId node, TensorId tensor) {
    const auto operands = graph.operands(node);
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Operand& operand) { return operand.tensor == tensor; });
  }

  [[nodiscard]] bool is_needed(std::size_t value) const { return needs_[value].last > 0; }

  // What is computed again, the last value first, as a clone needs what its original reads.
  void choose_again(std::size_t left, Duration time) {
    if (time >= best_.step) return;
    if (left == 0) {
      choose_swaps(0);
      return;
    }
    const std::size_t value = left - 1;
    if (left == values_.size()) {
      needs_.clear();
      for (const Value& it : values_) {
        needs_.push_back(it.late.empty() ? Need{} : Need{it.late.front(), it.late.back()});
      }
    }
    choices_[value].fate = Fate::kKept;
    choose_again(left - 1, time);
    if (!is_needed(value)) return;
    const std::vector<Need> before = needs_;
    for (const std::size_t operand : values_[value].made_from) {
      Need& need = needs_[operand];
      const std::size_t at = needs_[value].first;
      need = is_needed(operand) ? Need{std::min(need.first, at), std::max(need.last, at)}
                                : Need{at, at};
    }
    choices_[value].fate = Fate::kComputedAgain;
    choose_again(left - 1, time + values_[value].time);
    choices_[value].fate = Fate::kKept;
    needs_ = before;
  }

  // Which of the others from this one on are swapped, and where they come back. They leave as late
  // as they can, for now.
  void choose_swaps(std::size_t value) {
    if (!may_fit(value)) return;
    if (value == values_.size()) {
      place_swap_outs();
      return;
    }
    choose_swaps(value + 1);
    if (choices_[value].fate != Fate::kKept || !is_needed(value)) return;
    for (const std::size_t in : swap_in_lines(value)) {
      choices_[value] = {.fate = Fate::kSwapped, .out = in - 1, .in = in};
      if (may_fit(value + 1) && simulated_time() < best_.step) choose_swaps(value + 1);
    }
    choices_[value] = {};
  }

  // Below which lines a swap-in may stand, the lowest first.
  [[nodiscard]] std::vector<std::size_t> swap_in_lines(std::size_t value) const {
    const Duration copy = copy_time(device_.link, values_[value].size, CopyDirection::kToDevice);
    std::vector<std::size_t> lines;
    Duration ahead{0};   // what is computed between the line and the first reader
    Duration wanted{0};  // by the next line to be taken, where not all are
    for (std::size_t in = needs_[value].first; in-- > values_[value].last_early + 1;) {
      if (tries_every_line_ || ahead >= wanted) {
        lines.push_back(in);
        wanted = std::max(2 * wanted, copy);
      }
      ahead += times_[in];
    }
    return lines;
  }

  // Whether lines hold no more than the budget, if values from `undecided` on are there no longer
  // than they must, and swap-outs of those from `unplaced` on stand right below the last early
  // reader.
  [[nodiscard]] bool may_fit(std::size_t undecided, std::size_t unplaced = 0) {
    if (++best_.looked_at >= limit_) best_.is_complete = false;
    if (!best_.is_complete) return false;
    std::vector<Bytes> held = others_;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      add_value(held, i, i >= undecided, i >= unplaced);
    }
    return *std::max_element(held.begin(), held.end()) <= budget_;
  }

  void add_value(std::vector<Bytes>& held, std::size_t i, bool is_undecided,
                 bool is_out_early) const {
    const Value& value = values_[i];
    const Choice& choice = choices_[i];
    const auto add = [&](std::size_t first, std::size_t last) {
      for (std::size_t line = first; line <= last; ++line) held[line] += value.size;
    };
    if (!is_needed(i)) {
      add(value.made, value.last_early);
    } else if (choice.fate == Fate::kComputedAgain ||
               (is_undecided && choice.fate == Fate::kKept)) {
      add(value.made, value.last_early);
      add(needs_[i].first, needs_[i].last);
    } else if (choice.fate == Fate::kKept) {
      add(value.made, needs_[i].last);
    } else {
      add(value.made, is_out_early ? value.last_early : choice.out);
      add(choice.in + 1, needs_[i].last);
    }
  }

  // All ways to place the swap-outs, the lowest first. Who stands nowhere lower than in a way that
  // was laid out is not faster.
  void place_swap_outs() {
    if (simulated_time() >= best_.step) return;
    std::vector<std::vector<std::size_t>> laid_out;
    place_swap_out(0, laid_out);
  }

  void place_swap_out(std::size_t value, std::vector<std::vector<std::size_t>>& laid_out) {
    if (!may_fit(values_.size(), value)) return;
    if (value == values_.size()) {
      try_choices(laid_out);
      return;
    }
    if (choices_[value].fate != Fate::kSwapped) {
      place_swap_out(value + 1, laid_out);
      return;
    }
    for (std::size_t out = choices_[value].in; out-- > values_[value].last_early;) {
      choices_[value].out = out;
      place_swap_out(value + 1, laid_out);
    }
    choices_[value].out = choices_[value].in - 1;
  }

  void try_choices(std::vector<std::vector<std::size_t>>& laid_out) {
    std::vector<std::size_t> outs;
    outs.reserve(choices_.size());
    for (const Choice& choice : choices_) outs.push_back(choice.out);
    const bool is_dominated = std::any_of(laid_out.begin(), laid_out.end(), [&](const auto& other) {
      return std::equal(outs.begin(), outs.end(), other.begin(), std::less_equal<>());
    });
    if (is_dominated) return;
    const auto graph = rewritten();
    if (!graph) return;
    const StepCosts costs = estimate_costs(*graph, device_).value();
    const Duration step = simulate(*graph, costs).total;
    if (step < best_.step) {
      const Arena arena =
          arrange(*graph, needs_of(*graph, costs.workspace), {.alignment = device_.alignment});
      if (arena.size > budget_) return;
    }
    laid_out.push_back(outs);
    if (step >= best_.step) return;
    best_.is_better = true;
    best_.step = step;
    best_.decisions = decisions_;
  }

  Duration simulated_time() {
    const auto graph = rewritten();
    return graph ? simulate(*graph, estimate_costs(*graph, device_).value()).total : best_.step;
  }

  // Nothing where a rule says no.
  std::optional<Graph> rewritten() {
    Graph graph = graph_;
    Rewriter rewriter(graph, {.verify_each = false});
    decisions_.clear();
    const auto apply = [&](const Decision& decision) {
      decisions_ += to_text(graph, decision) + "\n";
      return rewriter.apply(decision).has_value();
    };
    for (std::size_t i = values_.size(); i-- > 0;) {
      if (choices_[i].fate != Fate::kComputedAgain) continue;
      const ReaderGroup group{.readers = late_readers(graph, i), .trigger = loss_};
      if (!apply(RecomputeDecision{.tensor = values_[i].tensor, .groups = {group}})) return {};
    }
    struct Copies {
      NodeId out;
      NodeId in;
    };
    std::vector<Copies> copies(values_.size());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (choices_[i].fate != Fate::kSwapped) continue;
      const ReaderGroup group{.readers = late_readers(graph, i),
                              .trigger = graph.producer(values_[i].tensor)};
      if (!apply(SwapDecision{.tensor = values_[i].tensor, .groups = {group}, .codec = {}}))
        return {};
      for (const NodeId added : rewriter.journal().back().added) {
        (graph.op(added) == kSwapOut ? copies[i].out : copies[i].in) = added;
      }
    }
    // Swap-outs above swap-ins, where both stand below the same line.
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (choices_[i].fate != Fate::kSwapped) continue;
      if (!apply(MoveDecision{copies[i].in, graph_.order()[choices_[i].in]})) return {};
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (choices_[i].fate != Fate::kSwapped || choices_[i].out == values_[i].made) continue;
      if (!apply(MoveDecision{copies[i].out, graph_.order()[choices_[i].out]})) return {};
    }
    rewriter.settle();
    return graph;
  }

  // Those of the backward part, and clones.
  [[nodiscard]] std::vector<NodeId> late_readers(const Graph& graph, std::size_t value) const {
    std::vector<NodeId> readers;
    for (const NodeId node : graph.nodes()) {
      const bool is_new = node.index() >= line_.size();
      const bool is_late = is_new || line_[node.index()] > line_[loss_.index()];
      if (is_late && reads(graph, node, values_[value].tensor)) readers.push_back(node);
    }
    return readers;
  }

  const Graph& graph_;
  const Device& device_;
  Bytes budget_;
  std::size_t limit_;
  bool tries_every_line_;
  NodeId loss_;
  std::vector<std::size_t> line_;  // by node
  std::vector<Value> values_;      // in the order of their lines
  std::vector<Bytes> others_;      // by line: what is held beside values
  std::vector<Duration> times_;    // by line
  Duration compute_time_{0};
  std::vector<Need> needs_;  // by value
  std::vector<Choice> choices_;
  std::string decisions_;  // of the last rewriting
  EveryChoice best_;
};

}  // namespace

Graph small_step(std::uint64_t seed, int values) {
  Dice dice(seed);
  const auto size = [&] { return f32({static_cast<std::int64_t>(10 * (1 + dice.below(40)))}); };
  const auto time = [&] { return Duration(static_cast<std::int64_t>(50 * (1 + dice.below(40)))); };
  GraphBuilder builder("small");
  std::vector<TensorId> made = {builder.input("x", f32({1}))};
  for (int i = 0; i < values; ++i) {
    std::vector<BuilderOperand> operands = {made.back()};
    if (made.size() > 2 && dice.one_in(4))
      operands.emplace_back(made[1 + dice.below(made.size() - 2)]);
    OpBuilder op = builder.op("my::layer", operands);
    op.takes(time());
    if (dice.one_in(6)) op.workspace(Bytes{static_cast<std::int64_t>(40 * dice.below(20))});
    made.push_back(op.makes(fmt::format("v{}", i), size()));
  }
  const TensorId loss = builder.op("my::loss", {made.back()}).takes(time()).makes("loss", f32({}));
  TensorId gradient = loss;
  for (std::size_t i = made.size() - 1; i > 0; --i) {
    std::vector<BuilderOperand> operands = {gradient, made[i - 1]};
    if (dice.one_in(3)) operands[1] = made[i];
    if (dice.one_in(4)) operands.emplace_back(made[i]);
    OpBuilder op = builder.op("my::gradient", operands);
    op.takes(time() + (dice.one_in(2) ? time() : Duration{0}));
    gradient = op.makes(fmt::format("g{}", i - 1), TensorType(builder.graph().type(made[i - 1])));
  }
  builder.returns({loss, gradient});
  auto graph = builder.build();
  EBB_CHECK(graph.has_value(), "a small step is wrong: {}", graph.error().message);
  return std::move(*graph);
}

EveryChoice try_every_choice(const Graph& step, const Device& device, Bytes budget, Duration known,
                             const EveryChoiceOptions& options) {
  return Search(step, device, budget, known, options).run();
}

}  // namespace ebb
