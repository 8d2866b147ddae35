#include "ebb/plan/validate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/print.h"
#include "ebb/graph/text_names.h"
#include "ebb/graph/views.h"
#include "ebb/order/elementwise.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/splits.h"

namespace ebb {
namespace {

// Bytes that somebody needs, of the arena or of the slab, and the lines during which.
struct Block {
  std::string name;
  StorageId storage;  // not valid for workspaces
  bool is_on_host = false;
  Bytes size;
  std::size_t first = 0;  // line
  std::size_t last = 0;   // line, included
  Bytes begin{};          // as the plan says

  [[nodiscard]] Bytes end() const { return begin + size; }
  [[nodiscard]] bool shares_bytes(const Block& other) const {
    return is_on_host == other.is_on_host && begin < other.end() && other.begin < end();
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} at {}..{}{}", name, begin.count, end().count,
                       is_on_host ? " @host" : "");
  }
};

// By counting: the elements of the type fill its extent, and no two lie in one place. Dimensions
// are looked at from the one with the smallest step.
bool has_every_byte_once(const TensorType& type) {
  if (type.strides.empty()) return true;
  std::multiset<std::pair<std::int64_t, std::int64_t>> steps;
  for (std::size_t i = 0; i < type.dims.size(); ++i) {
    if (type.dims[i] > 1) steps.insert({type.strides[i], type.dims[i]});
  }
  std::int64_t covered = 1;  // elements so far, side by side
  for (const auto& [step, count] : steps) {
    if (step != covered) return false;
    covered *= count;
  }
  return true;
}

class Validator {
 public:
  Validator(const Graph& graph, const PlanFile& plan, const Device& device,
            const StepCosts& original_costs, const StepCosts& costs)
      : graph_(graph),
        plan_(plan),
        device_(device),
        original_costs_(original_costs),
        costs_(costs) {}

  Status run() {
    // Each relies on what those before it found right.
    using Check = void (Validator::*)();
    for (const Check check :
         {&Validator::check_head, &Validator::check_order, &Validator::find_blocks,
          &Validator::check_offsets, &Validator::check_budgets, &Validator::check_copied_bytes,
          &Validator::check_bytes, &Validator::check_time}) {
      (this->*check)();
      if (!problem_.empty()) return fail(ErrorKind::kRefused, "the plan is wrong: " + problem_);
    }
    return {};
  }

 private:
  // Keeps the first.
  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    if (problem_.empty()) problem_ = fmt::format(format, std::forward<Args>(args)...);
  }

  void check_head() {
    if (plan_.device != device_.name) {
      report("it was made for device '{}', and this is '{}'", plan_.device, device_.name);
    }
    if (!plan_.budget) report("it has no budget");
    if (!plan_.peak || !plan_.host || !plan_.step || !plan_.unconstrained) {
      report("it does not predict peak, host, step and unconstrained");
    }
    budget_ = plan_.budget.value_or(Bytes{});
    peak_ = plan_.peak.value_or(Bytes{});
    host_ = plan_.host.value_or(Bytes{});
    step_ = plan_.step.value_or(Duration{0});
    unconstrained_ = plan_.unconstrained.value_or(Duration{0});
  }

  // The verifier says so too.
  void check_order() {
    const std::size_t end = graph_.order().size();
    line_.assign(graph_.node_count(), end);
    for (std::size_t i = 0; i < end; ++i) line_[graph_.order()[i].index()] = i;
    for (const NodeId node : graph_.order()) {
      const auto check_above = [&](NodeId other) {
        if (line_of(other) >= line_of(node)) {
          report("'{}' does not stand below '{}', for which it waits", graph_.name(node),
                 graph_.name(other));
        }
      };
      for (const Operand& operand : graph_.operands(node)) {
        if (operand.tensor.valid()) check_above(graph_.producer(operand.tensor));
      }
      for (const NodeId control : graph_.controls(node)) check_above(control);
    }
  }

  [[nodiscard]] std::size_t line_of(NodeId node) const { return line_[node.index()]; }

  // The line that makes the storage; for a copy to the host, when it may begin: at the line that
  // makes what it copies.
  [[nodiscard]] std::size_t first_line(StorageId storage) const {
    const NodeId maker = graph_.producer(graph_.root(storage));
    if (graph_.op(maker) != kSwapOut) return line_of(maker);
    return line_of(graph_.producer(graph_.operands(maker)[0].tensor));
  }

  // The first line that reads what a swap-in makes, by when it has ended.
  [[nodiscard]] std::size_t end_of_swap_in(NodeId swap_in) const {
    const StorageId made = graph_.storage(graph_.results(swap_in)[0]);
    for (const NodeId node : graph_.order()) {
      if (!makes_only_views(graph_, node) && reads(node, made)) return line_of(node);
    }
    return line_of(swap_in);
  }

  // The last line that touches the storage, or that makes it.
  [[nodiscard]] std::size_t last_line(StorageId storage) const {
    const NodeKind origin = graph_.origin(storage);
    const auto outputs = graph_.outputs();
    const bool is_returned = std::any_of(outputs.begin(), outputs.end(), [&](TensorId output) {
      return graph_.storage(output) == storage;
    });
    if (origin == NodeKind::kParam || origin == NodeKind::kConst || is_returned) {
      return graph_.order().size();
    }
    std::size_t last = line_of(graph_.producer(graph_.root(storage)));
    for (const NodeId node : graph_.order()) {
      if (makes_only_views(graph_, node) || !reads(node, storage)) continue;
      last = std::max(last, graph_.op(node) == kSwapIn ? end_of_swap_in(node) : line_of(node));
    }
    return last;
  }

  [[nodiscard]] bool reads(NodeId node, StorageId storage) const {
    const auto operands = graph_.operands(node);
    return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return operand.tensor.valid() && graph_.storage(operand.tensor) == storage;
    });
  }

  // All but their offsets.
  void find_blocks() {
    for (const StorageId storage : graph_.storages()) {
      const TensorId root = graph_.root(storage);
      const auto size = graph_.size(storage);
      const Block block{.name = "%" + spelled(graph_.name(root)),
                        .storage = storage,
                        .is_on_host = graph_.residence(storage) == Residence::kHost,
                        .size = size.value_or(Bytes{}),
                        .first = graph_.origin(storage) == NodeKind::kOp ? first_line(storage) : 0,
                        .last = last_line(storage)};
      // Handles and strings have no size that anybody could place.
      const bool has_size = element_size(graph_.type(root).dtype) != 0;
      if (!size && has_size) report("how large {} is, is not known", block.name);
      if (block.size.count > 0) blocks_.push_back(block);
    }
    for (const NodeId node : graph_.order()) {
      const Block block{.name = fmt::format("the workspace of '{}'", spelled(graph_.name(node))),
                        .storage = {},
                        .is_on_host = graph_.runs_on_host(node),
                        .size = costs_.workspace[node.index()],
                        .first = line_of(node),
                        .last = line_of(node)};
      if (block.size.count > 0) blocks_.push_back(block);
    }
  }

  void check_offsets() {
    std::map<std::string, Bytes> offsets;
    const auto take = [&](const std::string& name, Bytes at) {
      if (!offsets.insert({name, at}).second) report("{} has two offsets", name);
    };
    for (const PlanFile::Offset& it : plan_.tensors) take("%" + it.name, it.at);
    for (const PlanFile::Offset& it : plan_.workspaces) {
      take(fmt::format("the workspace of '{}'", it.name), it.at);
    }
    for (Block& block : blocks_) {
      const auto found = offsets.find(block.name);
      if (found == offsets.end()) {
        report("{} has no offset", block.name);
        continue;
      }
      block.begin = found->second;
      offsets.erase(found);
      if (block.begin.count % device_.alignment.count != 0) {
        report("the offset of {}, {}, is not aligned to {}", block.name, block.begin.count,
               device_.alignment.count);
      }
    }
    for (const auto& [name, at] : offsets) {
      report("{} has an offset, and there are no such bytes", name);
    }
  }

  void check_budgets() {
    check_room(false, "budget", budget_, "peak", peak_);
    const Bytes host_room = plan_.host_budget.value_or(host_);
    check_room(true, plan_.host_budget ? "host_budget" : "host", host_room, "host", host_);
  }

  void check_room(bool is_on_host, std::string_view room_name, Bytes room,
                  std::string_view peak_name, Bytes peak) {
    Bytes end;
    for (const Block& block : blocks_) {
      if (block.is_on_host != is_on_host) continue;
      // In this order nothing overflows, whatever the plan says.
      if (block.begin.count < 0 || block.size > room || block.begin > room - block.size) {
        report("{} of {} bytes, at {}, is not within the {} of {}", block.name, block.size.count,
               block.begin.count, room_name, room.count);
        return;
      }
      end = std::max(end, block.end());
    }
    const std::int64_t alignment = device_.alignment.count;
    end.count = (end.count + alignment - 1) / alignment * alignment;
    if (end != peak) {
      report("{} is {}, and what lies there ends at {}", peak_name, peak.count, end.count);
    }
    if (peak > room)
      report("{} is {}, beyond the {} of {}", peak_name, peak.count, room_name, room.count);
  }

  // A swap-out copies while others compute: until its line the bytes are its source's alone.
  void check_copied_bytes() {
    for (const NodeId node : graph_.order()) {
      if (graph_.op(node) != kSwapOut) continue;
      const StorageId source = graph_.storage(graph_.operands(node)[0].tensor);
      const auto mine = std::find_if(blocks_.begin(), blocks_.end(),
                                     [&](const Block& block) { return block.storage == source; });
      if (mine == blocks_.end()) continue;  // no bytes
      for (const Block& other : blocks_) {
        const bool is_early = mine->first < other.first && other.first <= line_of(node);
        if (is_early && mine->shares_bytes(other)) {
          report("{} is there before '{}' has copied {}", other.text(), graph_.name(node),
                 mine->text());
        }
      }
    }
  }

  void check_bytes() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (std::size_t j = i + 1; j < blocks_.size(); ++j) {
        const Block& a = blocks_[i];
        const Block& b = blocks_[j];
        const std::size_t first = std::max(a.first, b.first);
        if (first > std::min(a.last, b.last) || !a.shares_bytes(b)) continue;
        if (may_take_over_from(a, b) || may_take_over_from(b, a)) continue;
        report("{} and {} overlap at '{}'", a.text(), b.text(),
               print(graph_, graph_.order()[first]));
      }
    }
  }

  // Whether the one may be written over the other by the line that makes it.
  [[nodiscard]] bool may_take_over_from(const Block& made, const Block& read) const {
    if (!made.storage.valid() || !read.storage.valid() || read.last != made.first) return false;
    if (made.begin != read.begin || made.size != read.size) return false;
    const TensorId result = graph_.root(made.storage);
    const NodeId node = graph_.producer(result);
    const TakeOver rule = may_take_over(graph_.op(node));
    if (!graph_.is_op(node) || rule == TakeOver::kNever) return false;
    if (graph_.effect(node) == Effect::kEffect || graph_.updates_something(node)) return false;
    const auto results = graph_.results(node);
    if (results.size() != 1 && rule != TakeOver::kEach) return false;
    return has_every_byte_once(graph_.type(result)) && is_read_in_place(node, result, rule, read) &&
           !is_swapped_out(read.storage);
  }

  // Whether all that the node reads there are the elements of its result, in the same places.
  [[nodiscard]] bool is_read_in_place(NodeId node, TensorId result, TakeOver rule,
                                      const Block& read) const {
    const TensorType& type = graph_.type(result);
    const auto operands = graph_.operands(node);
    bool is_read = false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const TensorId operand = operands[i].tensor;
      if (!operand.valid() || graph_.storage(operand) != read.storage) continue;
      is_read = true;
      const TensorType& other = graph_.type(operand);
      const bool is_same_place = graph_.offset(operand).count == 0 && other.dims == type.dims &&
                                 other.strides == type.strides &&
                                 element_size(other.dtype) == element_size(type.dtype);
      if (!is_same_place) return false;
      if (rule == TakeOver::kFirst && i != 0) return false;
      if (rule == TakeOver::kEach && graph_.results(node)[static_cast<std::uint32_t>(i)] != result)
        return false;
    }
    return is_read;
  }

  [[nodiscard]] bool is_swapped_out(StorageId storage) const {
    const auto order = graph_.order();
    return std::any_of(order.begin(), order.end(), [&](NodeId node) {
      return graph_.op(node) == kSwapOut && reads(node, storage);
    });
  }

  void check_time() {
    const Duration before = compute_time(original_costs_);
    if (unconstrained_ != before) {
      report("unconstrained is {}, and the original computes for {}", to_text(unconstrained_),
             to_text(before));
    }
    check_step("the step computes for", compute_time(costs_));
    check_step("all swap-outs take", copy_times(kSwapOut, CopyDirection::kToHost));
    check_step("all swap-ins take", copy_times(kSwapIn, CopyDirection::kToDevice));
  }

  void check_step(std::string_view what, Duration needed) {
    if (step_ < needed) {
      report("step is {}, and {} {}", to_text(step_), what, to_text(needed));
    }
  }

  [[nodiscard]] static Duration compute_time(const StepCosts& costs) {
    return std::accumulate(costs.compute.begin(), costs.compute.end(), Duration{0});
  }

  [[nodiscard]] Duration copy_times(std::string_view op, CopyDirection direction) const {
    Duration sum{0};
    for (const NodeId node : graph_.order()) {
      if (graph_.op(node) != op) continue;
      const Bytes bytes = graph_.size(graph_.storage(graph_.results(node)[0])).value_or(Bytes{});
      sum += copy_time(device_.link, bytes, direction);
    }
    return sum;
  }

  const Graph& graph_;
  const PlanFile& plan_;
  const Device& device_;
  const StepCosts& original_costs_;
  const StepCosts& costs_;
  Bytes budget_;  // these are what the plan says
  Bytes peak_;
  Bytes host_;
  Duration step_{0};
  Duration unconstrained_{0};
  std::vector<std::size_t> line_;  // by node
  std::vector<Block> blocks_;
  std::string problem_;
};

}  // namespace

Status validate_plan(const Graph& original, const PlanFile& plan, const Device& device,
                     const Profile* profile) {
  const auto refuse = [](Error error) {
    error.kind = ErrorKind::kRefused;
    return fail(std::move(error));
  };
  const auto applied = apply_plan(original, plan);
  if (!applied) return refuse(applied.error());
  const auto original_costs = estimate_costs(original, device, profile);
  if (!original_costs) return refuse(original_costs.error());
  // Of what a split makes there may be no more in a profile than the whole.
  const auto known =
      profile == nullptr ? std::nullopt : std::optional(with_halves(*profile, original));
  const auto costs = estimate_costs(applied->graph, device, known ? &*known : nullptr);
  if (!costs) return refuse(costs.error());
  return Validator(applied->graph, plan, device, *original_costs, *costs).run();
}

}  // namespace ebb
