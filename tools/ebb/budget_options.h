// `ebb rewrite --budget`: TensorFlow's file rewritten so that a step keeps inside a budget.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "cost_options.h"
#include "ebb/base/result.h"
#include "ebb/export/graphdef.h"
#include "ebb/plan/plan_tensorflow.h"
#include "input.h"

namespace ebb::tool {

class BudgetOptions {
 public:
  void add_options(CLI::App& command);
  [[nodiscard]] bool is_given() const { return !budget_.empty(); }
  // Wrong usage: what goes with a budget, without one; parameters of the paper's beside it.
  [[nodiscard]] Status check(const CLI::App& command) const;
  // The plan, which exists: where nothing fits, that is an error (kInfeasible), and the reasons are
  // on standard error.
  [[nodiscard]] Result<TensorFlowPlanned> plan(const InputGraph& input, SwapNodes nodes,
                                               bool json) const;

 private:
  std::string budget_;
  std::string host_budget_;
  std::optional<std::int64_t> batch_size_;
  CostOptions costs_;
};

}  // namespace ebb::tool
