// What a framework has to offer so that its operations can run in a program.
//
//   kernels.measure(graph, node)       once per signature: what does it ask for?
//   kernels.time(graph, node)          the same: how long does it take?
//   kernels.warm_up(graph, node)       instead, where both are known
//   kernels.bind(graph, node, places)  once per node: everything static is set up
//   kernel->run(scalars)               once per step
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/exec/allocation.h"
#include "ebb/exec/scalars.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/recipe.h"
#include "ebb/plan/profile.h"

namespace ebb::exec {

// The place of a tensor: begins at the tensor's own first element.
using Places = std::span<std::byte* const>;  // by TensorId

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;

  // Reads and writes the places it was bound to, and the scalars; asks current_source() for the
  // memory of its results. Errors are the framework's own words; the executor adds where it was.
  // May also throw std::exception.
  [[nodiscard]] virtual Status run(Scalars& scalars) = 0;
};

// One per framework; its functions may be called from several threads at once.
class Kernels {
 public:
  Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  virtual ~Kernels() = default;

  // What kernels ask for when they run.
  [[nodiscard]] virtual MemoryKind memory() const { return MemoryKind::kHost; }

  // Runs the operation alone, on made-up values, outside of any arena.
  [[nodiscard]] virtual Result<Recipe> measure(const Graph& graph, NodeId node) = 0;

  // How long it then takes.
  [[nodiscard]] virtual Result<Duration> time(const Graph& graph, NodeId node) = 0;

  // Runs it alone once, so that libraries set up what they keep: in a step, the memory for that
  // would be taken for a result or a temporary. Whoever has been measured is warm.
  [[nodiscard]] virtual Status warm_up(const Graph& /*graph*/, NodeId /*node*/) { return {}; }

  // The graph must outlive the kernel.
  [[nodiscard]] virtual Result<std::unique_ptr<Kernel>> bind(const Graph& graph, NodeId node,
                                                             Places places) = 0;
};

// The recipe of every node, each signature measured once; copies need none. What lower would refuse
// of the graph is refused before anything is measured. `progress(done, total)` may be null.
[[nodiscard]] Result<std::vector<Recipe>> measure_all(
    const Graph& graph, Kernels& kernels,
    const std::function<void(std::size_t, std::size_t)>& progress = nullptr);

// A profile for planning: each signature timed once, with the workspace that its recipe needs.
[[nodiscard]] Result<Profile> time_all(
    const Graph& graph, Kernels& kernels, std::span<const Recipe> recipes, Bytes alignment,
    const std::function<void(std::size_t, std::size_t)>& progress = nullptr);

}  // namespace ebb::exec
