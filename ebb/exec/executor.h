// Runs a program in an arena, one step a call.
//
//   Result<Arena> arena = Arena::make(program.arena_size);
//   Result<Arena> host = Arena::make(program.host_size);
//   ThreadLanes lanes;
//   Result<Executor> executor = Executor::make(graph, program, kernels, {*arena, *host, lanes});
//   Status ok = executor->run(scalars);
//
// The caller fills inputs (and, once, the state) through place() before run, and reads outputs
// after it and before the next: their bytes are reused. Where lanes work on while the caller does
// something else (a GPU), it reads them in the compute lane, or after lanes.settle(). Steps of
// different executors may run at the same time on different threads if their arenas, host slabs and
// lanes differ; one executor runs one step at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/exec/allocation.h"
#include "ebb/exec/arena.h"
#include "ebb/exec/kernel.h"
#include "ebb/exec/lanes.h"
#include "ebb/exec/scalars.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/program.h"

namespace ebb::exec {

// What a step that did not finish has done to the state, counted in updates of variables.
struct Torn {
  std::size_t updates_done = 0;
  std::size_t updates_in_doubt = 0;  // those of the operation that failed: done, or half, or not
  std::size_t updates_in_all = 0;
  TensorId first;  // the first variable that was updated, or may have been

  // Whether the state is as before the step.
  [[nodiscard]] bool is_whole() const { return updates_done == 0 && updates_in_doubt == 0; }
};

// Where a program runs.
struct Ground {
  const Arena& arena;
  const Arena& host;  // may be empty when nothing is swapped out
  Lanes& lanes;
};

class Executor {
 public:
  // Everything must outlive the executor. The program must be for this graph, and fit the arena and
  // the host slab.
  [[nodiscard]] static Result<Executor> make(const Graph& graph, const Program& program,
                                             Kernels& kernels, const Ground& ground);

  // Asked between instructions as long as no state has been updated; true stops the step with
  // kRefused and the state as it was. After the first update the step always runs to its end.
  using Interrupted = std::function<bool()>;

  // The scalars that the graph declares must have been set; the others are computed.
  //
  // On an error the message has the node's line, its operands' types, the line of user code
  // (attribute ebb.at), and how much of the state had been updated: torn() says it as data, until
  // the next run. The arena can be used again. Of exceptions only InternalError comes through.
  //
  // Where it is timed, times of its instructions are then had from the lanes.
  [[nodiscard]] Status run(Scalars& scalars, const Interrupted& interrupted = nullptr,
                           bool is_timed = false);
  [[nodiscard]] const Torn& torn() const { return torn_; }

  [[nodiscard]] std::byte* place(TensorId tensor) const { return places_[tensor.index()]; }

 private:
  struct Copy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t size = 0;
  };

  // One instruction made ready: everything a step looks at, in the order of looking.
  struct Ready {
    std::unique_ptr<Kernel> kernel;  // null for what is no kernel
    std::span<const Serving> servings;
    std::span<const std::uint32_t> waits;
    InstructionKind kind = InstructionKind::kKernel;
    Lane lane = Lane::kCompute;
    bool is_awaited = false;    // by somebody in another lane
    std::uint32_t number = 0;   // among the copies, or among arithmetic
    std::uint32_t updates = 0;  // variables it updates
  };

  Executor(const Graph& graph, const Program& program, const Ground& ground);

  [[nodiscard]] Status add(const Instruction& instruction, Kernels& kernels);
  [[nodiscard]] Status add_kernel(const Instruction& instruction, Kernels& kernels, Ready& ready);
  [[nodiscard]] Copy copy_of(NodeId node) const;
  void find_order();
  [[nodiscard]] Status take_given(Scalars& scalars) const;
  [[nodiscard]] Status run_all(Scalars& scalars, const Interrupted& interrupted, bool is_timed);
  // Runs one instruction; an exception becomes an error.
  [[nodiscard]] Status run_one(const Ready& ready, Replay& replay, Scalars& scalars) const;
  [[nodiscard]] Status run_kernel(const Ready& ready, Replay& replay, Scalars& scalars) const;
  [[nodiscard]] Error explain(Error error, std::size_t instruction) const;
  [[nodiscard]] std::string state_text() const;  // how much of it has been updated

  const Graph* graph_;
  const Program* program_;
  Lanes* lanes_;
  MemoryKind memory_ = MemoryKind::kHost;
  std::byte* base_;
  std::vector<std::byte*> places_;
  std::vector<Ready> ready_;          // by instruction
  std::vector<std::uint32_t> order_;  // in which they are put into the lanes
  std::vector<Arithmetic> arithmetic_;
  std::vector<Copy> copies_;
  std::vector<ScalarId> given_;  // declared by the graph
  std::size_t updates_in_all_ = 0;
  Torn torn_;
};

}  // namespace ebb::exec
