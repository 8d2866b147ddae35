// Obviously right rather than fast, and without a line of lower's: overlaps are found by comparing
// everything that is alive at a line with everything else.
#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/print.h"
#include "ebb/graph/scalar_op.h"
#include "ebb/graph/text_names.h"
#include "ebb/lower/program.h"
#include "ebb/order/elementwise.h"

namespace ebb {
namespace {

// Bytes that somebody needs, of the arena or of the host slab.
struct Block {
  Bytes begin;
  Bytes size;
  std::string name;
  StorageId storage;  // not valid for workspaces
  bool is_on_host = false;

  [[nodiscard]] Bytes end() const { return begin + size; }
  [[nodiscard]] bool overlaps(const Block& other) const {
    return is_on_host == other.is_on_host && begin < other.end() && other.begin < end();
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} at {}..{}{}", name, begin.count, end().count,
                       is_on_host ? " @host" : "");
  }
};

class Checker {
 public:
  Checker(const Graph& graph, std::span<const Recipe> recipes, const Program& program,
          const LowerOptions& options)
      : graph_(graph), recipes_(recipes), program_(program), options_(options) {
    find_lines();
  }

  Status run() {
    // Each relies on what those before it found right.
    using Check = void (Checker::*)();
    for (const Check check :
         {&Checker::check_sizes, &Checker::check_tensors_lie_in_their_storages,
          &Checker::check_state, &Checker::check_instructions, &Checker::check_lines}) {
      (this->*check)();
      if (!problem_.empty()) return fail(ErrorKind::kRefused, "the program is wrong: " + problem_);
    }
    return {};
  }

 private:
  // Keeps the first.
  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    if (problem_.empty()) problem_ = fmt::format(format, std::forward<Args>(args)...);
  }

  [[nodiscard]] std::string name(TensorId tensor) const {
    return "%" + spelled(graph_.name(tensor));
  }

  [[nodiscard]] Bytes place(StorageId storage) const {
    return program_.offsets[graph_.root(storage).index()];
  }

  [[nodiscard]] Bytes needed(StorageId storage) const {
    return graph_.size(storage).value_or(Bytes{});
  }

  // What the type needs, or what the kernel asks for.
  [[nodiscard]] Bytes size(StorageId storage) const {
    Bytes bytes = needed(storage);
    const TensorId root = graph_.root(storage);
    const NodeId maker = graph_.producer(root);
    if (!graph_.is_op(maker) || kind_of(maker) != InstructionKind::kKernel) return bytes;
    const auto results = graph_.results(maker);
    for (const Request& request : recipes_[maker.index()].requests) {
      const bool mine =
          request.result >= 0 && results[static_cast<std::uint32_t>(request.result)] == root;
      if (mine) bytes = std::max(bytes, request.size);
    }
    return bytes;
  }

  [[nodiscard]] Block block(StorageId storage) const {
    return {place(storage), size(storage), name(graph_.root(storage)), storage,
            is_on_host(graph_.root(storage))};
  }

  [[nodiscard]] bool is_on_host(TensorId tensor) const {
    return graph_.type(tensor).residence == Residence::kHost;
  }

  [[nodiscard]] bool is_state(StorageId storage) const {
    return graph_.origin(storage) == NodeKind::kParam || graph_.origin(storage) == NodeKind::kConst;
  }

  // The lines between which each storage is needed, both included.
  void find_lines() {
    const std::size_t end = graph_.order().size();
    first_line_.assign(graph_.storage_count(), end);
    last_line_.assign(graph_.storage_count(), 0);
    for (std::size_t line = 0; line < end; ++line) {
      const NodeId node = graph_.order()[line];
      if (graph_.is_op(node) && !instruction_kind(graph_, node)) continue;
      for (const Operand& operand : graph_.operands(node)) {
        if (operand.tensor.valid()) last_line_[graph_.storage(operand.tensor).index()] = line;
      }
      for (const TensorId result : graph_.results(node)) {
        const std::size_t i = graph_.storage(result).index();
        first_line_[i] = std::min(first_line_[i], line);
        last_line_[i] = line;
      }
    }
    for (const StorageId storage : graph_.storages()) {
      if (graph_.origin(storage) != NodeKind::kOp) first_line_[storage.index()] = 0;
      if (is_state(storage)) last_line_[storage.index()] = end;
    }
    for (const TensorId output : graph_.outputs()) {
      last_line_[graph_.storage(output).index()] = end;  // the caller reads it afterwards
    }
  }

  [[nodiscard]] bool is_needed_after(StorageId storage, std::size_t line) const {
    return last_line_[storage.index()] > line;
  }

  [[nodiscard]] bool is_alive(StorageId storage, std::size_t line) const {
    return first_line_[storage.index()] <= line && line <= last_line_[storage.index()];
  }

  void check_sizes() {
    const bool ordered = Bytes{} <= program_.state_size && program_.state_size <= program_.bound &&
                         program_.bound <= program_.arena_size;
    if (!ordered) {
      report("state {} <= bound {} <= arena {} does not hold", program_.state_size.count,
             program_.bound.count, program_.arena_size.count);
    }
    if (program_.host_bound < Bytes{} || program_.host_size < program_.host_bound) {
      report("bound {} <= host slab {} does not hold", program_.host_bound.count,
             program_.host_size.count);
    }
  }

  void check_block(const Block& block) {
    if (block.size.count == 0) return;
    const Bytes room = block.is_on_host ? program_.host_size : program_.arena_size;
    if (block.begin.count < 0 || block.end() > room) {
      report("{} is not inside the {} of {}", block.text(),
             block.is_on_host ? "host slab" : "arena", room.count);
    }
    if (block.begin.count % options_.alignment.count != 0) {
      report("{} is not aligned to {}", block.text(), options_.alignment.count);
    }
  }

  void check_tensors_lie_in_their_storages() {
    if (program_.offsets.size() != graph_.tensor_count()) {
      report("{} offsets for {} tensors", program_.offsets.size(), graph_.tensor_count());
      return;
    }
    for (const StorageId storage : graph_.storages()) check_block(block(storage));
    for (const TensorId tensor : graph_.tensors()) {
      const StorageId storage = graph_.storage(tensor);
      if (program_.offsets[tensor.index()] != place(storage) + graph_.offset(tensor)) {
        report("{} is not where {} says", name(tensor), block(storage).text());
      }
    }
  }

  void check_state() {
    Bytes end;
    for (const NodeId node : graph_.order()) {
      for (const TensorId tensor : graph_.results(node)) {
        const StorageId storage = graph_.storage(tensor);
        if (graph_.root(storage) != tensor || size(storage).count == 0) continue;
        const Block mine = block(storage);
        if (is_state(storage) && (mine.begin < end || mine.end() > program_.state_size)) {
          report("{} is out of line: it is state, of {}", mine.text(), program_.state_size.count);
        } else if (is_state(storage)) {
          end = mine.end();
        } else if (!mine.is_on_host && mine.begin < program_.state_size) {
          report("{} is among the state, of {}", mine.text(), program_.state_size.count);
        }
      }
    }
  }

  [[nodiscard]] bool runs(NodeId node) const {
    if (!graph_.is_op(node)) return false;
    if (graph_.results(node).empty() || graph_.effect(node) != Effect::kPure) return true;
    if (graph_.updates_something(node)) return true;
    const auto results = graph_.results(node);
    return std::any_of(results.begin(), results.end(), [&](TensorId result) {
      return graph_.root(graph_.storage(result)) == result;
    });
  }

  void check_instructions() {
    std::size_t next = 0;
    for (const NodeId node : graph_.order()) {
      if (!runs(node)) continue;
      if (next == program_.instructions.size() || program_.instructions[next].node != node) {
        report("'{}' has no instruction in its place", graph_.name(node));
        return;
      }
      const Instruction& instruction = program_.instructions[next++];
      const InstructionKind kind = kind_of(node);
      if (kind != instruction.kind) report("'{}' is of the wrong kind", graph_.name(node));
      if (kind == InstructionKind::kCopy) check_copy(node);
      const bool is_kernel = kind == InstructionKind::kKernel;
      const std::size_t asked = is_kernel ? recipes_[node.index()].requests.size() : 0;
      if (instruction.serving_count != asked ||
          std::size_t{instruction.first_serving} + asked > program_.servings.size()) {
        report("'{}' makes {} requests, and {} are served", graph_.name(node), asked,
               instruction.serving_count);
        return;
      }
      if (is_kernel) check_servings(instruction);
    }
    if (next != program_.instructions.size()) report("there are more instructions than lines");
  }

  [[nodiscard]] InstructionKind kind_of(NodeId node) const {
    const std::string_view op = graph_.op(node);
    for (const std::string_view copy : {kSwapOut, kSwapIn, kSnapshot}) {
      if (op == copy) return InstructionKind::kCopy;
    }
    return is_host_arithmetic(op) ? InstructionKind::kArithmetic : InstructionKind::kKernel;
  }

  // A copy is of one tensor into as many bytes, on the side that its operator says.
  void check_copy(NodeId node) {
    const std::string_view op = graph_.op(node);
    const auto operands = graph_.operands(node);
    const auto results = graph_.results(node);
    if (operands.size() != 1 || !operands[0].tensor.valid() || results.size() != 1) {
      report("'{}' is a copy, and not of one tensor", graph_.name(node));
      return;
    }
    const TensorId from = operands[0].tensor;
    const TensorId to = results[0];
    if (extent(graph_.type(from)) != extent(graph_.type(to))) {
      report("'{}' copies {} to {}, of another size", graph_.name(node), name(from), name(to));
    }
    if (is_on_host(from) != (op == kSwapIn) || is_on_host(to) != (op == kSwapOut)) {
      report("'{}' copies {} to {}, on the wrong side", graph_.name(node), name(from), name(to));
    }
  }

  void check_servings(const Instruction& instruction) {
    const auto servings = program_.servings_of(instruction);
    const auto& requests = recipes_[instruction.node.index()].requests;
    const std::string_view who = graph_.name(instruction.node);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request& request = requests[i];
      if (servings[i].size != request.size) {
        report("request {} of '{}' is for {}, served are {}", i + 1, who, request.size.count,
               servings[i].size.count);
      }
      if ((request.result == Request::kKept) != (servings[i].offset == Serving::kElsewhere)) {
        report("request {} of '{}' is served on the wrong side", i + 1, who);
      }
      if (request.result < 0) continue;
      const TensorId result =
          graph_.results(instruction.node)[static_cast<std::uint32_t>(request.result)];
      if (servings[i].offset != program_.offsets[result.index()]) {
        report("request {} of '{}' is served at {}, but {} lies at {}", i + 1, who,
               servings[i].offset.count, name(result), program_.offsets[result.index()].count);
      }
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (std::size_t j = i + 1; j < requests.size(); ++j) {
        const bool both = requests[i].result == Request::kTemporary &&
                          requests[j].result == Request::kTemporary && requests[i].freed_after > j;
        if (both && temporary(instruction, i).overlaps(temporary(instruction, j))) {
          report("{} and {} overlap", temporary(instruction, i).text(),
                 temporary(instruction, j).text());
        }
      }
    }
  }

  [[nodiscard]] Block temporary(const Instruction& instruction, std::size_t i) const {
    const Serving& serving = program_.servings_of(instruction)[i];
    return {serving.offset, serving.size,
            fmt::format("temporary {} of '{}'", i + 1, graph_.name(instruction.node)), StorageId(),
            false};
  }

  void check_lines() {
    std::vector<Block> blocks;  // state lies apart from these and from itself: check_state
    for (const StorageId storage : graph_.storages()) {
      if (!is_state(storage) && size(storage).count > 0) blocks.push_back(block(storage));
    }
    std::size_t next = 0;
    for (std::size_t line = 0; line < graph_.order().size() && problem_.empty(); ++line) {
      std::vector<Block> alive;
      std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(alive),
                   [&](const Block& block) { return is_alive(block.storage, line); });
      check_apart(alive, line);
      const NodeId node = graph_.order()[line];
      if (next < program_.instructions.size() && program_.instructions[next].node == node) {
        check_temporaries(program_.instructions[next++], alive);
      }
    }
    if (taken_over_ != program_.reused_in_place) {
      report("{} results took over bytes, the program says {}", taken_over_,
             program_.reused_in_place);
    }
  }

  void check_apart(const std::vector<Block>& alive, std::size_t line) {
    for (std::size_t i = 0; i < alive.size(); ++i) {
      for (std::size_t j = i + 1; j < alive.size(); ++j) {
        if (!alive[i].overlaps(alive[j])) continue;
        const bool allowed = may_share(alive[i].storage, alive[j].storage, line) ||
                             may_share(alive[j].storage, alive[i].storage, line);
        if (allowed) ++taken_over_;
        if (!allowed) {
          report("{} and {} overlap at '{}'", alive[i].text(), alive[j].text(),
                 print(graph_, graph_.order()[line]));
        }
      }
    }
  }

  void check_temporaries(const Instruction& instruction, const std::vector<Block>& alive) {
    const auto& requests = recipes_[instruction.node.index()].requests;
    for (std::size_t i = 0; i < instruction.serving_count; ++i) {
      if (requests[i].result != Request::kTemporary) continue;
      const Block mine = temporary(instruction, i);
      check_block(mine);
      if (mine.begin < program_.state_size) report("{} is among the state", mine.text());
      for (const Block& other : alive) {
        if (mine.overlaps(other)) report("{} and {} overlap", mine.text(), other.text());
      }
    }
  }

  // Whether the operation of a line may write its result over what it reads.
  [[nodiscard]] bool may_share(StorageId read, StorageId made, std::size_t line) const {
    const NodeId node = graph_.order()[line];
    const TakeOver rule = may_take_over(graph_.op(node));
    const TensorId result = graph_.root(made);
    if (!options_.reuse_in_place || rule == TakeOver::kNever) return false;
    const std::size_t number = result.index() - graph_.results(node)[0].index();
    if (graph_.producer(result) != node) return false;
    if (graph_.results(node).size() != 1 && rule != TakeOver::kEach) return false;
    if (graph_.updates_something(node) || graph_.effect(node) == Effect::kEffect) return false;
    if (is_needed_after(read, line)) return false;
    if (place(read) != place(made) || size(read) != size(made)) return false;
    const TensorType& type = graph_.type(result);
    if (!has_every_byte_once(type)) return false;
    std::size_t index = 0;
    bool reads_it = false;
    for (const Operand& operand : graph_.operands(node)) {
      if (operand.tensor.valid() && graph_.storage(operand.tensor) == read) {
        const TensorType& other = graph_.type(operand.tensor);
        if (rule == TakeOver::kFirst && index != 0) return false;
        if (rule == TakeOver::kEach && index != number) return false;
        if (graph_.offset(operand.tensor).count != 0 || other.dims != type.dims ||
            other.strides != type.strides ||
            element_size(other.dtype) != element_size(type.dtype)) {
          return false;
        }
        reads_it = true;
      }
      ++index;
    }
    return reads_it && needed(read) == needed(made);
  }

  // By counting: the elements of the type fill its extent, and no two lie in one place. Dimensions
  // are looked at from the one with the smallest step.
  [[nodiscard]] static bool has_every_byte_once(const TensorType& type) {
    if (type.strides.empty()) return true;
    std::multiset<std::pair<std::int64_t, std::int64_t>> steps;
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < type.dims.size(); ++i) {
      elements *= type.dims[i];
      if (type.dims[i] > 1) steps.insert({type.strides[i], type.dims[i]});
    }
    std::int64_t covered = 1;  // elements so far, side by side without a gap
    for (const auto& [step, count] : steps) {
      if (step < covered) return false;  // it steps onto what is there
      covered += step * (count - 1);
    }
    return covered == elements;
  }

  const Graph& graph_;
  std::span<const Recipe> recipes_;
  const Program& program_;
  const LowerOptions& options_;
  std::vector<std::size_t> first_line_;  // by storage
  std::vector<std::size_t> last_line_;
  std::size_t taken_over_ = 0;
  std::string problem_;
};

}  // namespace

Status check_program(const Graph& graph, std::span<const Recipe> recipes, const Program& program,
                     const LowerOptions& options) {
  return Checker(graph, recipes, program, options).run();
}

}  // namespace ebb
