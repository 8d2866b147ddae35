// From "this many bytes" to a step that fits: the whole way, on one page.
//
//   const auto planned = make_plan(graph, *find_device("h200"), {.budget = Bytes{16} << 30});
//   if (!planned) return planned.error();                  // sizes unknown, absurd costs
//   if (planned->infeasible) explain(*planned->infeasible);
//   else write(to_text(planned->plan->file));
//
// costs (costs.h) → what may be moved (step_model.h, may_do.h) → choices (planner.h) → decisions
// (decide.h) → the rewritten graph, proved → offsets (arena.h) → timeline (simulate.h). Where
// offsets need more than the lines hold, or a rule says no after all, the planner is asked again
// with less to choose from; a plan that comes out has been measured on the rewritten graph, and
// fits. Where an aten::convolution_backward stands at the peak and nothing fits, or time is lost,
// all that is done once more for the step with that call split (splits.h). Deterministic for a
// number of evaluations and a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/arena.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/device.h"
#include "ebb/plan/evaluate.h"
#include "ebb/plan/hold.h"
#include "ebb/plan/profile.h"
#include "ebb/plan/simulate.h"
#include "ebb/plan/step_model.h"
#include "ebb/plan/timeline.h"
#include "ebb/rewrite/plan_file.h"

namespace ebb {

struct PlanOptions {
  Bytes budget{};                                   // of the arena
  std::optional<Bytes> host_budget = std::nullopt;  // of the slab; not given: as much as it takes
  const Profile* profile = nullptr;
  // One of TensorFlow's: for its executor. The budget is of what its allocator has given out, there
  // are no offsets, and edges hold it to the lines (hold.h).
  Clock clock = Clock::kCompleted;
  bool runs_as_a_whole = true;  // as HoldOptions has it
  bool may_swap = true;
  bool may_recompute = true;
  bool may_split = true;  // calls that stand at the peak (splits.h)
  Bytes min_bytes{1};     // smaller tensors stay
  // How many steps search may simulate; not given: as many as take about a second.
  std::optional<std::uint32_t> evaluations = std::nullopt;
  std::uint32_t effort = 1;  // multiplies `evaluations`
  std::uint64_t seed = 1;
  std::function<void(std::uint32_t done, std::uint32_t of, Duration best)> progress = nullptr;
  // Asked where there is a choice, which is then the answer.
  std::function<bool()> is_out_of_time = nullptr;
};

struct Plan {
  PlanFile file;  // decisions, prediction, offsets
  Graph graph;    // after the decisions
  StepCosts costs;
  Arena arena;  // without offsets for TensorFlow's executor: how much it holds
  Timeline timeline;
  Held held;                      // edges for that executor
  std::uint32_t evaluations = 0;  // how many steps were simulated, by this seed
  // What was chosen between: for questions about it (explain.h). No choices where the plan is from
  // a file.
  StepModel model;
  std::vector<Gap> gaps;
  Choices choices;
  // The budget by which the choices have these lines: less than the plan's, where offsets take more
  // than lines.
  Bytes evaluated_for = kNoLimit;

  [[nodiscard]] Bytes peak() const { return arena.size; }
  [[nodiscard]] Duration step() const { return timeline.total; }
};

// What no plan was found for, and why.
struct Infeasible {
  bool host_is_short = false;  // more on the host would help
  // A budget for which there is a plan, the least that was found; where the host is short, with as
  // much there as it takes.
  Bytes least;
  // The operation at which that plan holds most, and what is there then.
  std::string operation;
  struct Resident {
    std::string what;  // "%h", "%h.back", "the workspace of 'gw'"
    Bytes size;
    std::string why;  // it is there: "a parameter stays", "'conv1' reads it"
  };
  std::vector<Resident> residents;  // largest first
};

struct Planned {
  std::unique_ptr<const Plan> plan;              // null where there is none
  std::unique_ptr<const Infeasible> infeasible;  // why; null where there is one
  Bytes budget;                                  // that was asked for
  Bytes floor;                                   // what the largest operation needs by itself, all
                                                 // calls being split that may be
  Bytes unconstrained;                           // the arena of the graph as it is
  Duration unconstrained_step{};
};

// Of a graph that the verifier accepts and nobody has rewritten. Fails (kBadInput) where costs or
// sizes are not known, and where the graph was rewritten before.
[[nodiscard]] Result<Planned> make_plan(const Graph& graph, const Device& device,
                                        const PlanOptions& options);

// The same for decisions that are known: they are applied and proved, and what comes out is laid
// out and simulated. What the file says beyond its decisions is not looked at; the file that comes
// out has it anew, and is the same text where the file was made with the same of everything. Fails
// (kBadInput) as make_plan does, and where a decision does not apply; (kRefused) where the result
// needs more than the budgets.
[[nodiscard]] Result<Planned> plan_of_file(const Graph& graph, const Device& device,
                                           const PlanOptions& options, const PlanFile& file);

// What the graph takes as it is: the arena that per cents of a budget are of.
[[nodiscard]] Result<Bytes> unconstrained_bytes(const Graph& graph, const Device& device,
                                                const PlanOptions& options);

}  // namespace ebb
