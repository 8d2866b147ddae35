// A step as the planner sees it: operations on a line, values that they make and read, and what may
// be done to each value. Made once from a graph and its costs, and not changed; O(nodes + edges).
//
// A value is a storage. Lines that run no code (views, declarations) are not operations here: who
// reads a view reads the value. Sizes are rounded up to the alignment of the arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/costs.h"

namespace ebb {

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

struct StepModel {
  struct Operation {
    NodeId node;
    Duration takes{};
    Bytes workspace;
    std::uint32_t first_operand = 0;  // in `operands`: values, each once
    std::uint32_t operand_count = 0;
    std::uint32_t first_result = 0;  // in `results`: values that it brings into being
    std::uint32_t result_count = 0;
    // The last operation above this one that it waits for; kNone: there is none. Going from one to
    // the next gives lines that this one waits for, of which there are many.
    std::uint32_t waits_for = kNone;
    std::uint32_t first_takeover = 0;  // in `takeovers`
    std::uint32_t takeover_count = 0;
    // What it updates, and a clone of it needs copies of, taken right above this operation; and
    // what taking them takes.
    Bytes updated{};
    Duration keeping{};
  };

  // A result that can take over the bytes of an operand that nobody needs any more.
  struct TakeOver {
    std::uint32_t result = 0;
    std::uint32_t operand = 0;
  };

  struct Value {
    StorageId storage;
    TensorId tensor;  // the one that decisions name
    Bytes size;
    std::uint32_t producer = kNone;  // an operation; kNone for what is there from the start
    std::uint32_t first_use = 0;     // in `uses`: operations that read or update it, in line order
    std::uint32_t use_count = 0;
    bool stays = false;     // to the end: state, and what the step returns
    bool can_swap = false;  // as far as can be said without a reader
    bool can_recompute = false;
  };

  std::vector<Operation> operations;  // in line order
  std::vector<Value> values;          // on the device
  std::vector<std::uint32_t> operands;
  std::vector<std::uint32_t> results;
  std::vector<std::uint32_t> uses;
  std::vector<TakeOver> takeovers;

  [[nodiscard]] std::span<const TakeOver> takeovers_of(std::uint32_t operation) const {
    const Operation& it = operations[operation];
    return std::span(takeovers).subspan(it.first_takeover, it.takeover_count);
  }
  [[nodiscard]] std::span<const std::uint32_t> operands_of(std::uint32_t operation) const {
    const Operation& it = operations[operation];
    return std::span(operands).subspan(it.first_operand, it.operand_count);
  }
  [[nodiscard]] std::span<const std::uint32_t> results_of(std::uint32_t operation) const {
    const Operation& it = operations[operation];
    return std::span(results).subspan(it.first_result, it.result_count);
  }
  [[nodiscard]] std::span<const std::uint32_t> uses_of(std::uint32_t value) const {
    const Value& it = values[value];
    return std::span(uses).subspan(it.first_use, it.use_count);
  }
};

struct StepModelOptions {
  Bytes alignment{64};
  Bytes min_bytes{1};  // smaller values stay
  bool may_swap = true;
  bool may_recompute = true;
  bool reuse_in_place = true;
};

// Of a graph that the verifier accepts and that nobody has rewritten. Fails (kBadInput) where a
// size is not known, naming the tensor.
[[nodiscard]] Result<StepModel> model_step(const Graph& graph, const StepCosts& costs,
                                           const StepModelOptions& options = {});

}  // namespace ebb
