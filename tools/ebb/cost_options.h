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

// The group of these options in --help.
inline constexpr const char* kTimesGroup = "Times";

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
  // kUsage where an output of the command would overwrite what is read.
  [[nodiscard]] Status check_output(const std::string& path) const;
  // `input` is the graph's path: standard input is one thing.
  [[nodiscard]] Result<CostModel> read(const std::string& input) const;

 private:
  std::string model_ = "h200";
  std::string profile_;  // empty: none
};

// A line for standard error about operations that the model knows nothing of; empty without any.
std::string unknown_operators_note(const Graph& graph, const StepCosts& costs);
// Lines about a profile that is of another device or has not all operations, and about workspaces
// that nobody has measured.
std::string coverage_note(const Graph& graph, const CostModel& model, const StepCosts& costs);

}  // namespace ebb::tool
