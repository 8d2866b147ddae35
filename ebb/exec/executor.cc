#include "ebb/exec/executor.h"

#include <algorithm>
#include <array>
#include <exception>
#include <numeric>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/ebb_ops.h"
#include "ebb/graph/print.h"
#include "ebb/graph/text_names.h"

namespace ebb::exec {
namespace {

// "%x: f32[2,3], %w: f32[3]", each tensor once.
std::string operand_types(const Graph& graph, NodeId node) {
  std::string out;
  std::vector<TensorId> named;
  for (const Operand& operand : graph.operands(node)) {
    const TensorId tensor = operand.tensor;
    if (!tensor.valid() || std::find(named.begin(), named.end(), tensor) != named.end()) continue;
    named.push_back(tensor);
    out += fmt::format("{}%{}: {}", out.empty() ? "" : ", ", spelled(graph.name(tensor)),
                       to_text(graph.type(tensor)));
  }
  return out;
}

// The line of the user's code, where the graph says it.
std::string_view user_code(const Graph& graph, NodeId node) {
  const Attribute* at = graph.find_attribute(node, kUserCode);
  if (at == nullptr || at->item_count != 1) return {};
  const auto* text = std::get_if<Text>(graph.items(*at).data());
  return text == nullptr ? std::string_view() : graph.text(text->id);
}

// Where it was: "my::op, from model.py:12: '%h: f32[4] = my::op(%x)', on %x: f32[4]". What can
// become long stands last, where messages are cut.
std::string whereabouts(const Graph& graph, NodeId node) {
  std::string out(graph.op(node));
  if (const auto code = user_code(graph, node); !code.empty())
    out += fmt::format(", from {}", code);
  out += fmt::format(": '{}'", print(graph, node));
  if (const std::string types = operand_types(graph, node); !types.empty()) out += ", on " + types;
  return out;
}

TensorId first_variable(const Graph& graph, NodeId node) {
  for (const Operand& operand : graph.operands(node)) {
    if (operand.access == Access::kUpdate && graph.is_variable(operand.tensor)) {
      return operand.tensor;
    }
  }
  return {};
}

std::uint32_t count_updates(const Graph& graph, NodeId node) {
  std::uint32_t count = 0;
  for (const Operand& operand : graph.operands(node)) {
    if (operand.access == Access::kUpdate && graph.is_variable(operand.tensor)) ++count;
  }
  return count;
}

// Who is asked may run code of the user's (Python's handlers of signals), whose tensors are not the
// step's.
bool asks_outside(const Executor::Interrupted& interrupted, MemoryKind memory) {
  const SourceScope outside(nullptr, memory);
  return interrupted();
}

}  // namespace

Executor::Executor(const Graph& graph, const Program& program, const Ground& ground)
    : graph_(&graph), program_(&program), lanes_(&ground.lanes), base_(ground.arena.data()) {
  places_.reserve(program.offsets.size());
  for (const TensorId tensor : graph.tensors()) {
    const bool is_on_host = graph.type(tensor).residence == Residence::kHost;
    places_.push_back((is_on_host ? ground.host.data() : base_) +
                      program.offsets[tensor.index()].count);
  }
  for (const NodeId node : graph.order()) {
    if (graph.kind(node) == NodeKind::kScalar) given_.push_back(graph.scalar_result(node));
  }
}

Result<Executor> Executor::make(const Graph& graph, const Program& program, Kernels& kernels,
                                const Ground& ground) {
  EBB_CHECK(program.offsets.size() == graph.tensor_count(),
            "a program with places for {} tensors is not that of a graph with {}",
            program.offsets.size(), graph.tensor_count());
  if (ground.arena.size() < program.arena_size) {
    return fail(ErrorKind::kUsage,
                fmt::format("the program needs an arena of {}, and this one has {}",
                            to_text(program.arena_size), to_text(ground.arena.size())));
  }
  if (ground.host.size() < program.host_size) {
    return fail(ErrorKind::kUsage,
                fmt::format("the program needs a host slab of {}, and this one has {}",
                            to_text(program.host_size), to_text(ground.host.size())));
  }
  Executor executor(graph, program, ground);
  executor.memory_ = kernels.memory();
  executor.ready_.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    if (Status ok = executor.add(instruction, kernels); !ok) return fail(std::move(ok.error()));
  }
  for (const std::uint32_t awaited : program.waits) executor.ready_[awaited].is_awaited = true;
  executor.find_order();
  return executor;
}

Status Executor::add(const Instruction& instruction, Kernels& kernels) {
  Ready ready;
  ready.kind = instruction.kind;
  ready.lane = instruction.lane;
  ready.waits = program_->waits_of(instruction);
  switch (instruction.kind) {
    case InstructionKind::kKernel:
      if (Status ok = add_kernel(instruction, kernels, ready); !ok) return ok;
      break;
    case InstructionKind::kArithmetic:
      ready.number = static_cast<std::uint32_t>(arithmetic_.size());
      arithmetic_.emplace_back(*graph_, instruction.node);
      break;
    case InstructionKind::kCopy:
      ready.number = static_cast<std::uint32_t>(copies_.size());
      copies_.push_back(copy_of(instruction.node));
      break;
  }
  updates_in_all_ += ready.updates;
  ready_.push_back(std::move(ready));
  return {};
}

Status Executor::add_kernel(const Instruction& instruction, Kernels& kernels, Ready& ready) {
  const NodeId node = instruction.node;
  auto kernel = kernels.bind(*graph_, node, places_);
  if (!kernel) {
    Error error = std::move(kernel.error());
    error.message = fmt::format("{}; when preparing {}", error.message, whereabouts(*graph_, node));
    return fail(std::move(error));
  }
  EBB_CHECK(*kernel != nullptr, "'{}' was bound to no kernel", graph_->name(node));
  ready.kernel = std::move(*kernel);
  ready.servings = program_->servings_of(instruction);
  ready.updates = count_updates(*graph_, node);
  return {};
}

// All bytes from the tensor's first element to its last: the copy has the same strides, so elements
// come to lie as they lay, and what is between them does no harm.
Executor::Copy Executor::copy_of(NodeId node) const {
  const TensorId from = graph_->operands(node)[0].tensor;
  const Bytes size = extent(graph_->type(from)).value_or(Bytes{});
  return {.to = place(graph_->results(node)[0]),
          .from = place(from),
          .size = static_cast<std::size_t>(size.count)};
}

// Kernels in the order of the program, and a copy after the last one that it waits for, or that
// something does which it waits for, and not before what precedes it in its lane. Where several
// come between the same two kernels, they keep the order of the program.
void Executor::find_order() {
  std::vector<std::uint32_t> slots(ready_.size());  // odd: of kernels; even: between them
  std::array<std::uint32_t, kLaneCount> last{};     // slot of the last copy in each lane
  for (std::uint32_t i = 0; i < ready_.size(); ++i) {
    if (ready_[i].lane == Lane::kCompute) {
      slots[i] = 2 * i + 1;
      continue;
    }
    std::uint32_t& slot = last[static_cast<std::size_t>(ready_[i].lane)];
    for (const std::uint32_t awaited : ready_[i].waits) {
      slot = std::max(slot, slots[awaited] + slots[awaited] % 2);
    }
    slots[i] = slot;
  }
  order_.resize(ready_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return slots[a] < slots[b]; });
}

Status Executor::take_given(Scalars& scalars) const {
  for (const ScalarId scalar : given_) {
    auto value = convert(scalars[scalar], graph_->dtype(scalar));
    if (!value) {
      return fail(ErrorKind::kUsage,
                  fmt::format("${}: {}", spelled(graph_->name(scalar)), value.error().message));
    }
    scalars.set(scalar, *value);
  }
  return {};
}

Status Executor::run(Scalars& scalars, const Interrupted& interrupted, bool is_timed) {
  torn_ = {};
  if (Status ok = take_given(scalars); !ok) return ok;
  torn_.updates_in_all = updates_in_all_;
  lanes_->begin(ready_.size(), is_timed);
  Status ok;
  // Whatever happens, the lanes end: what was put in must not go on alone.
  try {
    ok = run_all(scalars, interrupted, is_timed);
  } catch (...) {
    lanes_->drop_next();
    [[maybe_unused]] const Status ended = lanes_->end();  // what was thrown is what is said
    throw;
  }
  if (!ok) lanes_->drop_next();  // half a step is not worth keeping
  if (Status ended = lanes_->end(); ok && !ended) {
    Error error = std::move(ended.error());
    error.message = fmt::format("{}; {}", error.message, state_text());
    ok = fail(std::move(error));
  }
  if (ok) torn_ = {};
  return ok;
}

Status Executor::run_all(Scalars& scalars, const Interrupted& interrupted, bool is_timed) {
  Replay replay;
  const SourceScope scope(&replay, memory_);
  for (const std::uint32_t i : order_) {
    const Ready& ready = ready_[i];
    if (torn_.updates_done == 0 && interrupted && asks_outside(interrupted, memory_)) {
      return fail(ErrorKind::kRefused,
                  fmt::format("interrupted before '{}'; the state is as before the step",
                              graph_->name(program_->instructions[i].node)));
    }
    if (ready.updates > 0 && torn_.updates_done == 0) {
      torn_.first = first_variable(*graph_, program_->instructions[i].node);
    }
    for (const std::uint32_t awaited : ready.waits) lanes_->wait(ready.lane, awaited);
    lanes_->start(ready.lane, i);
    if (lanes_->has_failed()) return {};  // a kernel would meet what it was to wait for
    // In doubt until it returns, whatever way it leaves.
    torn_.updates_in_doubt = ready.updates;
    if (Status ok = run_one(ready, replay, scalars); !ok) {
      return fail(explain(std::move(ok.error()), i));
    }
    if (ready.is_awaited || is_timed) lanes_->finish(ready.lane, i);
    torn_.updates_in_doubt = 0;
    torn_.updates_done += ready.updates;
  }
  return {};
}

Status Executor::run_one(const Ready& ready, Replay& replay, Scalars& scalars) const {
  switch (ready.kind) {
    case InstructionKind::kKernel:
      return run_kernel(ready, replay, scalars);
    case InstructionKind::kArithmetic:
      return arithmetic_[ready.number].run(scalars);
    case InstructionKind::kCopy: {
      const Copy& copy = copies_[ready.number];
      lanes_->copy(ready.lane, copy.to, copy.from, copy.size);
      return {};
    }
  }
  EBB_CHECK(false, "an instruction of no kind");
}

Status Executor::run_kernel(const Ready& ready, Replay& replay, Scalars& scalars) const {
  replay.start(base_, ready.servings);
  try {
    return ready.kernel->run(scalars);
  } catch (const InternalError&) {
    throw;
  } catch (const UnexpectedRequest& unexpected) {
    return fail(ErrorKind::kRefused, unexpected.what());
  } catch (const std::exception& exception) {
    return fail(ErrorKind::kBadInput, exception.what());
  }
}

std::string Executor::state_text() const {
  if (torn_.is_whole()) return "the state is as before the step";
  const auto begun = torn_.updates_in_doubt == 0
                         ? std::string()
                         : fmt::format(" and {} begun", torn_.updates_in_doubt);
  return fmt::format(
      "{} of {} updates of the state had been done{}, %{} first: load it again before the next "
      "step",
      torn_.updates_done, torn_.updates_in_all, begun, spelled(graph_->name(torn_.first)));
}

Error Executor::explain(Error error, std::size_t instruction) const {
  const NodeId node = program_->instructions[instruction].node;
  error.message =
      fmt::format("{}; {}; in {}", error.message, state_text(), whereabouts(*graph_, node));
  return error;
}

}  // namespace ebb::exec
