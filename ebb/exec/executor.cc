#include "ebb/exec/executor.h"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "ebb/base/check.h"
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
  const Attribute* at = graph.find_attribute(node, "ebb.at");
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

}  // namespace

Executor::Executor(const Graph& graph, const Program& program, const Arena& arena)
    : graph_(&graph), program_(&program), base_(arena.data()) {
  places_.reserve(program.offsets.size());
  for (const Bytes offset : program.offsets) places_.push_back(base_ + offset.count);
  for (const NodeId node : graph.order()) {
    if (graph.kind(node) == NodeKind::kScalar) given_.push_back(graph.scalar_result(node));
  }
}

Result<Executor> Executor::make(const Graph& graph, const Program& program, Kernels& kernels,
                                const Arena& arena) {
  EBB_CHECK(program.offsets.size() == graph.tensor_count(),
            "a program with places for {} tensors is not that of a graph with {}",
            program.offsets.size(), graph.tensor_count());
  if (arena.size() < program.arena_size) {
    return fail(ErrorKind::kUsage,
                fmt::format("the program needs an arena of {}, and this one has {}",
                            to_text(program.arena_size), to_text(arena.size())));
  }
  Executor executor(graph, program, arena);
  executor.ready_.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    if (Status ok = executor.add(instruction, kernels); !ok) return fail(std::move(ok.error()));
  }
  return executor;
}

Status Executor::add(const Instruction& instruction, Kernels& kernels) {
  const NodeId node = instruction.node;
  Ready ready;
  if (instruction.kind == InstructionKind::kArithmetic) {
    ready.arithmetic = static_cast<std::uint32_t>(arithmetic_.size());
    arithmetic_.emplace_back(*graph_, node);
  } else {
    auto kernel = kernels.bind(*graph_, node, places_);
    if (!kernel) {
      Error error = std::move(kernel.error());
      error.message =
          fmt::format("{}; when preparing {}", error.message, whereabouts(*graph_, node));
      return fail(std::move(error));
    }
    EBB_CHECK(*kernel != nullptr, "'{}' was bound to no kernel", graph_->name(node));
    ready.kernel = std::move(*kernel);
    ready.servings = program_->servings_of(instruction);
    ready.updates = count_updates(*graph_, node);
  }
  updates_in_all_ += ready.updates;
  ready_.push_back(std::move(ready));
  return {};
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

Status Executor::run(Scalars& scalars, const Interrupted& interrupted) {
  torn_ = {};
  if (Status ok = take_given(scalars); !ok) return ok;
  torn_.updates_in_all = updates_in_all_;
  Replay replay;
  const SourceScope scope(&replay);
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const Ready& ready = ready_[i];
    if (torn_.updates_done == 0 && interrupted && interrupted()) {
      return fail(ErrorKind::kRefused,
                  fmt::format("interrupted before '{}'; the state is as before the step",
                              graph_->name(program_->instructions[i].node)));
    }
    if (ready.updates > 0 && torn_.updates_done == 0) {
      torn_.first = first_variable(*graph_, program_->instructions[i].node);
    }
    // In doubt until it returns, whatever way it leaves.
    torn_.updates_in_doubt = ready.updates;
    if (Status ok = run_one(ready, replay, scalars); !ok) {
      return fail(explain(std::move(ok.error()), i));
    }
    torn_.updates_in_doubt = 0;
    torn_.updates_done += ready.updates;
  }
  torn_ = {};
  return {};
}

Status Executor::run_one(const Ready& ready, Replay& replay, Scalars& scalars) const {
  if (ready.kernel == nullptr) return arithmetic_[ready.arithmetic].run(scalars);
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

Error Executor::explain(Error error, std::size_t instruction) const {
  const NodeId node = program_->instructions[instruction].node;
  std::string state = "the state is as before the step";
  if (!torn_.is_whole()) {
    const auto begun = torn_.updates_in_doubt == 0
                           ? std::string()
                           : fmt::format(" and {} begun", torn_.updates_in_doubt);
    state = fmt::format(
        "{} of {} updates of the state had been done{}, %{} first: load it again before the next "
        "step",
        torn_.updates_done, torn_.updates_in_all, begun, spelled(graph_->name(torn_.first)));
  }
  error.message = fmt::format("{}; {}; in {}", error.message, state, whereabouts(*graph_, node));
  return error;
}

}  // namespace ebb::exec
