#include "tests/exec/compiled.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "ebb/base/check.h"
#include "ebb/exec/executor.h"
#include "tests/exec/hash_op.h"
#include "tests/exec/reference.h"

namespace ebb {
namespace {

constexpr int kSteps = 3;

bool is_state(const Graph& graph, TensorId tensor) {
  const NodeKind origin = graph.origin(graph.storage(tensor));
  return origin == NodeKind::kParam || origin == NodeKind::kConst;
}

// What is given from outside at a step: the state at the first one only.
void feed(const Graph& graph, int step, const std::function<std::byte*(TensorId)>& place) {
  std::mt19937_64 engine(static_cast<std::uint64_t>(step));
  for (const NodeId node : graph.nodes()) {
    if (graph.is_op(node) || graph.results(node).empty()) continue;
    const TensorId tensor = graph.results(node)[0];
    const std::size_t size = byte_count(graph, tensor);
    for (std::size_t i = 0; i < size; ++i) {
      const auto byte = static_cast<std::byte>(engine());
      if (step == 0 || !is_state(graph, tensor)) place(tensor)[i] = byte;
    }
  }
}

exec::Scalars scalars_at(const Graph& graph, int step) {
  exec::Scalars scalars(graph);
  for (const ScalarId scalar : graph.scalars()) {
    scalars.set(scalar, std::int64_t{step} + scalar.index());
  }
  return scalars;
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

std::string find_difference(const Graph& original, const Compiled& compiled, HashKernels& kernels,
                            const exec::ThreadLanesOptions& options) {
  const auto arena = exec::Arena::make(compiled.program.arena_size);
  if (!arena) return arena.error().message;
  const auto host = exec::Arena::make(compiled.program.host_size);
  if (!host) return host.error().message;
  exec::ThreadLanes lanes(options);
  auto executor =
      exec::Executor::make(compiled.graph, compiled.program, kernels, {*arena, *host, lanes});
  if (!executor) return executor.error().message;
  Reference reference(original);
  for (int step = 0; step < kSteps; ++step) {
    feed(original, step, [&](TensorId tensor) { return executor->place(tensor); });
    feed(original, step, [&](TensorId tensor) { return reference.bytes(tensor).data(); });
    exec::Scalars scalars = scalars_at(compiled.graph, step);
    if (const Status ok = executor->run(scalars); !ok) return ok.error().message;
    exec::Scalars expected = scalars_at(original, step);
    for (const NodeId node : original.order()) {  // as the graph declares them
      const ScalarId scalar = original.scalar_result(node);
      if (original.kind(node) != NodeKind::kScalar) continue;
      expected.set(scalar, *exec::convert(expected[scalar], original.dtype(scalar)));
    }
    reference.run(expected);
    for (const TensorId tensor : original.tensors()) {
      const auto& outputs = original.outputs();
      if (!is_state(original, tensor) &&
          std::find(outputs.begin(), outputs.end(), tensor) == outputs.end()) {
        continue;
      }
      const auto bytes = reference.bytes(tensor);
      if (std::memcmp(bytes.data(), executor->place(tensor), bytes.size()) != 0) {
        return fmt::format("%{} differs after step {}", original.name(tensor), step);
      }
    }
    for (const ScalarId scalar : original.scalars()) {
      if (scalars[scalar] != expected[scalar]) {
        return fmt::format("${} differs after step {}", original.name(scalar), step);
      }
    }
  }
  return {};
}

}  // namespace ebb
