// Where the times of a command come from: the options --model and --profile.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/costs.h"
#include "ebb/plan/device.h"
#include "ebb/plan/profile.h"

namespace ebb::tool {

// What was named on the command line, read.
struct CostModel {
  Device device;
  std::optional<Profile> measured;

  [[nodiscard]] const Profile* profile() const { return measured ? &*measured : nullptr; }
  [[nodiscard]] Result<StepCosts> estimate(const Graph& graph) const {
    return estimate_costs(graph, device, profile());
  }
};

class CostOptions {
 public:
  void add_options(CLI::App& command);
  // `input` is the graph's path: standard input is one thing.
  [[nodiscard]] Result<CostModel> read(const std::string& input) const;

 private:
  std::string model_ = "h200";
  std::string profile_;  // empty: none
};

// A line for standard error about operations that the model knows nothing of; empty without any.
std::string unknown_operators_note(const Graph& graph, const StepCosts& costs);

}  // namespace ebb::tool
