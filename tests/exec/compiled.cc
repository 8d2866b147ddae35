#include "tests/exec/compiled.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <utility>

#include "ebb/base/check.h"
#include "tests/exec/hash_op.h"
#include "tests/exec/reference.h"

namespace ebb {
namespace {

constexpr int kSteps = 3;

bool is_state(const Graph& graph, TensorId tensor) {
  const NodeKind origin = graph.origin(graph.storage(tensor));
  return origin == NodeKind::kParam || origin == NodeKind::kConst;
}

using PutBytes = std::function<void(TensorId, std::vector<std::byte>)>;

// What is given from outside at a step: the state at the first one only.
void feed(const Graph& graph, int step, const PutBytes& put) {
  std::mt19937_64 engine(static_cast<std::uint64_t>(step));
  for (const NodeId node : graph.nodes()) {
    if (graph.is_op(node) || graph.results(node).empty()) continue;
    const TensorId tensor = graph.results(node)[0];
    std::vector<std::byte> bytes(byte_count(graph, tensor));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
    if (step == 0 || !is_state(graph, tensor)) put(tensor, std::move(bytes));
  }
}

// Two steps have the same, the third has others.
exec::Scalars scalars_at(const Graph& graph, int step) {
  exec::Scalars scalars(graph);
  for (const ScalarId scalar : graph.scalars()) {
    scalars.set(scalar, std::int64_t{step / 2} + scalar.index());
  }
  return scalars;
}

// As the graph declares them.
exec::Scalars declared_scalars_at(const Graph& graph, int step) {
  exec::Scalars scalars = scalars_at(graph, step);
  for (const NodeId node : graph.order()) {
    const ScalarId scalar = graph.scalar_result(node);
    if (graph.kind(node) != NodeKind::kScalar) continue;
    scalars.set(scalar, *exec::convert(scalars[scalar], graph.dtype(scalar)));
  }
  return scalars;
}

// Bytes that a step left, and what they should be.
struct Left {
  TensorId tensor;
  int step = 0;
  std::vector<std::byte> expected;
  std::vector<std::byte> bytes;
};

// Feeds and runs both, and says which scalar differs; what is read is there when it has settled.
std::string run_steps(const Graph& original, const Graph& graph, exec::Executor& executor,
                      Stage& stage, std::deque<std::vector<std::byte>>& fed,
                      std::deque<Left>& left) {
  Reference reference(original);
  for (int step = 0; step < kSteps; ++step) {
    feed(original, step, [&](TensorId tensor, std::vector<std::byte> bytes) {
      std::copy(bytes.begin(), bytes.end(), reference.bytes(tensor).begin());
      fed.push_back(std::move(bytes));
      stage.write(executor.place(tensor), fed.back());
    });
    exec::Scalars scalars = scalars_at(graph, step);
    if (const Status ok = stage.run(executor, scalars); !ok) return ok.error().message;
    exec::Scalars expected = declared_scalars_at(original, step);
    reference.run(expected);
    for (const TensorId tensor : original.tensors()) {
      const auto& outputs = original.outputs();
      if (!is_state(original, tensor) &&
          std::find(outputs.begin(), outputs.end(), tensor) == outputs.end()) {
        continue;
      }
      const auto bytes = reference.bytes(tensor);
      left.push_back({.tensor = tensor,
                      .step = step,
                      .expected = {bytes.begin(), bytes.end()},
                      .bytes = std::vector<std::byte>(bytes.size())});
      stage.read(executor.place(tensor), left.back().bytes);
    }
    for (const ScalarId scalar : original.scalars()) {
      if (scalars[scalar] != expected[scalar]) {
        return fmt::format("${} differs after step {}", original.name(scalar), step);
      }
    }
  }
  return {};
}

}  // namespace

Compiled compile(Graph graph, HashKernels& kernels, const LowerOptions& options) {
  Compiled compiled{std::move(graph), {}, options, {}};
  auto recipes = exec::measure_all(compiled.graph, kernels);
  EBB_CHECK(recipes.has_value(), "{}", recipes.error().message);
  compiled.recipes = std::move(*recipes);
  auto program = lower(compiled.graph, compiled.recipes, options);
  EBB_CHECK(program.has_value(), "{}", program.error().message);
  compiled.program = std::move(*program);
  return compiled;
}

Program without_wait(const Program& program, std::size_t wait) {
  Program less = program;
  less.waits.erase(less.waits.begin() + static_cast<std::ptrdiff_t>(wait));
  for (Instruction& instruction : less.instructions) {
    if (instruction.first_wait > wait) {
      --instruction.first_wait;
    } else if (wait < instruction.first_wait + instruction.wait_count) {
      --instruction.wait_count;
    }
  }
  return less;
}

void Stage::write(std::byte* to, std::span<const std::byte> bytes) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
}

void Stage::read(const std::byte* from, std::span<std::byte> bytes) {
  if (!bytes.empty()) std::memcpy(bytes.data(), from, bytes.size());
}

Status Stage::run(exec::Executor& executor, exec::Scalars& scalars) {
  return executor.run(scalars);
}

Status Stage::settle() { return {}; }

std::string find_difference(const Graph& original, const Compiled& compiled, HashKernels& kernels,
                            Stage& stage) {
  const auto arena = stage.backend().make_arena(compiled.program.arena_size);
  if (!arena) return arena.error().message;
  const auto host = stage.backend().make_host_slab(compiled.program.host_size, nullptr);
  if (!host) return host.error().message;
  auto executor = exec::Executor::make(compiled.graph, compiled.program, kernels,
                                       {*arena, *host, stage.backend().lanes()});
  if (!executor) return executor.error().message;
  std::deque<std::vector<std::byte>> fed;
  std::deque<Left> left;
  std::string difference = run_steps(original, compiled.graph, *executor, stage, fed, left);
  if (const Status ok = stage.settle(); !ok && difference.empty()) return ok.error().message;
  for (const Left& each : left) {
    if (difference.empty() && each.bytes != each.expected) {
      difference = fmt::format("%{} differs after step {}", original.name(each.tensor), each.step);
    }
  }
  return difference;
}

std::string find_difference(const Graph& original, const Compiled& compiled, HashKernels& kernels,
                            const exec::ThreadLanesOptions& options) {
  const auto backend = exec::make_cpu_backend(options);
  Stage stage(*backend);
  return find_difference(original, compiled, kernels, stage);
}

}  // namespace ebb
