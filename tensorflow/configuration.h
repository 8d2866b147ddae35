// What the plug-in is to do: the paper's parameters under their names, or a budget; and where
// tensors go.
//
// It comes from Python as a JSON object, or from the environment, EBB_<PARAMETER>=..., lists by
// commas. Both know the same parameters, from one table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/export/graphdef.h"
#include "ebb/import/graphdef.h"
#include "ebb/plan/profile.h"
#include "ebb/rewrite/lms.h"

namespace ebb::grappler {

// What is planned for, instead of the paper's parameters.
struct BudgetParameters {
  std::string budget;           // "14GiB" or "60%"; empty: by the paper's parameters
  std::int64_t batch_size = 0;  // of what a graph leaves open; 0: not given
  std::string device = "h200";  // a device that Ebb knows, or a device file
  std::string profile;          // a file; empty: by the device's numbers
  std::string host_budget;      // empty: as much as it takes
  bool strict = false;  // whether a step that is over its budget fails; for the Python front
};

struct Configuration {
  LmsOptions lms;
  BudgetParameters budget;
  TensorFlowDevices devices;
  SwapNodes swap_nodes = SwapNodes::kIdentity;
};

// {"n_tensors": 3, "excl_types": ["Relu"]}. Errors (kUsage) name the parameter, and the nearest one
// when there is none of that name; whether a graph has the scopes is not known here.
[[nodiscard]] Result<Configuration> parse_configuration(std::string_view json);

// Every parameter with its value, as one JSON object that parse_configuration reads.
std::string to_json(const Configuration& configuration);

// Of environ: on with EBB_ENABLE=1 or with any EBB_<PARAMETER>, off with EBB_ENABLE=0; nullopt when
// nothing is set. An EBB_ name that is no parameter is an error.
[[nodiscard]] Result<std::optional<Configuration>> configuration_of_environment(
    const char* const* environment);

}  // namespace ebb::grappler
