// A training step made ready to run on PyTorch's kernels inside a byte budget: graph, plan,
// program, arena, host slab and executor.
//
//   Result<std::unique_ptr<Step>> step = Step::make(graph, {.device = "cuda", .budget = "16GiB"});
//   (*step)->write(weight, bytes);                       // the state, once
//   (*step)->write(input, bytes);                        // the batch, each step
//   Status ok = (*step)->run({{"lr", 0.1}});
//
// Every distinct operation is measured, unless a process before has done so. Where the step as it
// is needs more than the budget, each is timed, and the step is rewritten by a plan (plan/plan.h);
// so, it fits or it is said what would. Steps with arenas of their own may run at the same time on
// different threads. On a GPU, run puts the step into its stream and returns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/exec/backend.h"
#include "ebb/exec/cache.h"
#include "ebb/exec/executor.h"
#include "ebb/exec/measurement_file.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/program.h"
#include "ebb/plan/plan.h"
#include "ebb/torch/kernels.h"
#include "ebb/torch/replan.h"

namespace ebb::torch {

// Told what is being done, and how far it is; `total` is zero where nobody knows. What it throws
// ends that, and comes through.
using TellProgress =
    std::function<void(std::string_view what, std::size_t done, std::size_t total)>;

// The strides of results that lie otherwise in memory than the graph says, by their names.
using StridesByName = std::map<std::string, std::vector<std::int64_t>>;

struct StepOptions {
  std::string device = "cpu";   // or "cuda", "cuda:1"
  std::string budget = "100%";  // "16GiB", "60%" of what the step needs as it is, "auto"
  std::string host_budget;      // "64GiB"; empty: as much as it takes
  bool may_plan = true;         // or the step runs as it is, or not at all
  bool may_swap = true;
  bool may_recompute = true;
  std::optional<std::uint32_t> evaluations = std::nullopt;  // as in PlanOptions
  exec::ThreadLanesOptions lanes;                           // of the CPU
  // Where measurements and plans are kept (exec/cache.h); empty: nowhere.
  std::string cache = exec::default_cache_folder();
  // Another step of the same state, on the same device, whose arena this one uses as well: they
  // take turns. The budget is that arena; where there is a host budget, it is that step's host
  // slab, and a slab that is large enough is used by both in any case.
  const class Step* shares_arena_of = nullptr;
  // Told in some lines why nothing fits, where nothing does.
  std::function<void(std::string_view lines)> explain;
  // What was measured before, for steps of similar graphs on the same device: what is there is not
  // measured again, and what is new is added. Not given: the step has its own.
  exec::Measurements* known = nullptr;
  // Asked for the graph of the same step where results lie otherwise, before anything is planned:
  // with these strides, or none where that is all that it knows. What it throws comes through.
  std::function<std::optional<Graph>(const StridesByName&)> capture_anew;
  TellProgress progress;
};

// Whether a device that StepOptions name is there; kUsage otherwise. PyTorch can be asked about its
// generator afterwards.
[[nodiscard]] Status check_device(const std::string& name);

// How making a step ready went.
struct Preparation {
  Duration measuring{};
  Duration timing{};
  Duration planning{};
  Duration allocating{};
  bool plan_was_known = false;  // from an earlier process
};

class Step {
 public:
  // The graph must pass the verifier. kInfeasible where nothing fits.
  [[nodiscard]] static Result<std::unique_ptr<Step>> make(Graph graph,
                                                          const StepOptions& options = {});
  // Only finds out whether and how it would fit, and allocates neither arena nor host slab: what it
  // gives has a graph, a program and a plan, and no places. Says no before anything is measured
  // where one operation needs more than the budget.
  [[nodiscard]] static Result<std::unique_ptr<const Step>> plan(Graph graph,
                                                                const StepOptions& options = {});
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step();

  // Every runtime scalar of the graph must be given. See exec::Executor::run. References to graph,
  // program, recipes and plan are good until the next run. Where the step is planned again when it
  // has been done, `progress` is told; what it throws leaves the plan as it is.
  [[nodiscard]] Status run(const std::map<std::string, exec::Number>& scalars,
                           const exec::Executor::Interrupted& interrupted = nullptr,
                           bool is_timed = false, const TellProgress& progress = nullptr);
  // Returns when the device has done all that was put into it.
  [[nodiscard]] Status settle();

  // Between host memory and the place of a tensor; done on return.
  [[nodiscard]] Status write(TensorId tensor, std::span<const std::byte> bytes) const;
  [[nodiscard]] Status read(TensorId tensor, std::span<std::byte> bytes) const;

  // Whether the last run has changed no state: it failed before the first update. True before the
  // first run.
  [[nodiscard]] bool state_is_as_before() const {
    return !is_done_ && executor_->torn().is_whole();
  }
  // Runs that came to their end, whatever was thrown afterwards.
  [[nodiscard]] std::uint64_t runs_done() const { return runs_done_; }
  // Of the last run, where the caller asked for them; otherwise none.
  [[nodiscard]] Result<std::vector<exec::Interval>> times();

  // See exec/profiler.h.
  [[nodiscard]] Result<Profile> with_split_calls(const Profile& profile);

  [[nodiscard]] const Graph& graph() const { return now_->graph; }  // as it runs
  [[nodiscard]] const Program& program() const { return now_->program; }
  [[nodiscard]] const std::vector<Recipe>& recipes() const { return now_->recipes; }
  // Grows when a run has made anything of the above, or the place of an input or an output, another
  // one. Outputs have their values in the new places then.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  [[nodiscard]] const std::optional<Replanned>& replanned() const { return replanned_; }
  [[nodiscard]] c10::Device device() const { return device_; }
  [[nodiscard]] Bytes budget() const { return budget_; }
  [[nodiscard]] Bytes unconstrained() const { return unconstrained_; }
  // How it was made to fit; null where it fits as it is.
  [[nodiscard]] const Planned* planned() const { return planned_.get(); }
  [[nodiscard]] const Preparation& preparation() const { return preparation_; }
  // Whether the last steps were done again as the lanes had kept them, without calls.
  [[nodiscard]] bool is_kept() const { return keeping_ == Keeping::kKept; }
  // What people should hear of and nobody has been told yet: each is one line.
  [[nodiscard]] std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

  [[nodiscard]] std::byte* place(TensorId tensor) const { return executor_->place(tensor); }
  // The block that a tensor lies in: the arena or the host slab. Shared, because what the user
  // holds in it may outlive the step.
  [[nodiscard]] const std::shared_ptr<const exec::Arena>& block(TensorId tensor) const {
    return graph().type(tensor).residence == Residence::kHost ? host_ : arena_;
  }

 private:
  // A graph made ready to run. Executors point into it.
  struct Lowered {
    Graph graph;
    std::vector<Recipe> recipes;
    Program program;
    std::unique_ptr<TorchKernels> kernels;  // bound to this graph: they know its tensors by id
  };
  struct Fitting {
    std::unique_ptr<const Planned> planned;
    std::unique_ptr<const Lowered> lowered;
    bool was_known = false;  // the plan, from an earlier process
  };

  Step(c10::Device device, std::unique_ptr<exec::Backend> backend, exec::Cache cache);

  [[nodiscard]] static Result<std::unique_ptr<Step>> open(Graph graph, const StepOptions& options);
  [[nodiscard]] Status prepare(Graph graph, const StepOptions& options);
  [[nodiscard]] Status measure(Graph graph, exec::Kernels& kernels, const StepOptions& options);
  [[nodiscard]] Result<std::unique_ptr<const Lowered>> lower_graph(
      Graph graph, exec::Kernels& kernels, const std::function<void(std::size_t, std::size_t)>&);
  [[nodiscard]] Status set_budget(const StepOptions& options);
  [[nodiscard]] Status fit(exec::Kernels& kernels, const StepOptions& options);
  [[nodiscard]] Result<Profile> time_calls(
      const Graph& graph, std::span<const Recipe> recipes, exec::Kernels& kernels,
      const std::function<void(std::size_t, std::size_t)>& progress);
  [[nodiscard]] Result<Fitting> plan_to_fit(const Graph& original, const Device& device,
                                            PlanOptions planning, exec::Kernels& kernels,
                                            const std::function<void(std::string_view)>& explain);
  [[nodiscard]] Status allocate(const StepOptions& options);
  [[nodiscard]] Status allocate_host(const StepOptions& options);
  [[nodiscard]] Result<std::unique_ptr<exec::Executor>> bind(const Lowered& lowered,
                                                             const exec::Arena& host);
  [[nodiscard]] Result<exec::Scalars> values_of(
      const std::map<std::string, exec::Number>& scalars) const;
  [[nodiscard]] bool can_be_kept() const;
  // Runs the executor, or has the lanes do again what they kept.
  [[nodiscard]] Status run_or_replay(exec::Scalars& scalars,
                                     const exec::Executor::Interrupted& interrupted, bool is_timed);
  [[nodiscard]] Status replay(exec::Scalars& scalars,
                              const exec::Executor::Interrupted& interrupted);
  // Planning again: these are in replan.cc.
  [[nodiscard]] Status look_at_times(const TellProgress& progress);
  [[nodiscard]] Status plan_again(const Trial& trial, const TellProgress& progress);
  // The times that operations have in the step, for all that a plan of it may call; they are kept.
  [[nodiscard]] Result<Profile> time_as_in_step(const Trial& trial, const Profile& in_step,
                                                const TellProgress& progress);
  [[nodiscard]] Status go_on_with(Fitting fitting);

  c10::Device device_;
  std::unique_ptr<exec::Backend> backend_;
  TorchKernels kernels_;  // to measure with
  exec::Cache cache_;
  exec::MeasurementFile measured_;
  std::unique_ptr<const Lowered> now_;
  Bytes unconstrained_;
  Bytes budget_;
  std::unique_ptr<const Planned> planned_;
  Preparation preparation_;
  std::vector<std::string> notes_;
  std::shared_ptr<const exec::Arena> arena_;
  std::shared_ptr<const exec::Arena> host_;
  std::unique_ptr<exec::Executor> executor_;
  // Kernels are called with scalars, so what is kept is good as long as they stay the same.
  enum class Keeping : std::uint8_t { kNever, kNotYet, kKept };
  Keeping keeping_ = Keeping::kNever;
  std::vector<exec::Number> last_given_;
  int same_given_ = 0;            // how many steps in a row had these
  std::unique_ptr<Trial> trial_;  // null: nothing is tried any more
  std::optional<Replanned> replanned_;
  std::uint64_t generation_ = 0;
  std::uint64_t runs_done_ = 0;
  bool is_done_ = false;    // the last run, whatever came after it
  bool was_timed_ = false;  // the last run, because the caller asked for it
};

}  // namespace ebb::torch
