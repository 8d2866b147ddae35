// A training step made ready to run on PyTorch's kernels: graph, program, arena, host slab and
// executor.
//
//   Result<std::unique_ptr<Step>> step = Step::make(graph);
//   std::memcpy((*step)->place(weight), ...);            // the state, once
//   std::memcpy((*step)->place(input), ...);             // the batch, each step
//   Status ok = (*step)->run({{"lr", 0.1}});
//
// Steps with arenas of their own may run at the same time on different threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/exec/executor.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/program.h"
#include "ebb/torch/kernels.h"

namespace ebb::torch {

struct StepOptions {
  // Told how many of the distinct operations have been measured.
  std::function<void(std::size_t done, std::size_t total)> progress;
};

class Step {
 public:
  // Measures every distinct operation, plans arena and host slab, binds every kernel. The graph
  // must pass the verifier.
  [[nodiscard]] static Result<std::unique_ptr<Step>> make(Graph graph,
                                                          const StepOptions& options = {});
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() = default;

  // Every runtime scalar of the graph must be given. See exec::Executor::run.
  [[nodiscard]] Status run(const std::map<std::string, exec::Number>& scalars,
                           const exec::Executor::Interrupted& interrupted = nullptr,
                           std::vector<Duration>* times = nullptr);

  [[nodiscard]] const exec::Torn& torn() const { return executor_->torn(); }

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const std::vector<Recipe>& recipes() const { return recipes_; }
  [[nodiscard]] std::byte* place(TensorId tensor) const { return executor_->place(tensor); }
  // The block that a tensor lies in: the arena or the host slab. Shared, because what the user
  // holds in it may outlive the step.
  [[nodiscard]] const std::shared_ptr<const exec::Arena>& block(TensorId tensor) const {
    return graph_.type(tensor).residence == Residence::kHost ? host_ : arena_;
  }

 private:
  explicit Step(Graph graph) : graph_(std::move(graph)) {}

  Graph graph_;
  TorchKernels kernels_;
  std::vector<Recipe> recipes_;
  Program program_;
  std::shared_ptr<const exec::Arena> arena_;
  std::shared_ptr<const exec::Arena> host_;
  std::unique_ptr<exec::Executor> executor_;
};

}  // namespace ebb::torch
