// What `ebb run` does once its options are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::tool {

struct RunOptions {
  std::string step;                  // the graph; "-" is standard input
  std::int64_t steps = 1;            // at least 1
  std::string state;                 // empty: beside the step, .safetensors
  std::vector<std::string> scalars;  // NAME=VALUE
  std::optional<std::uint64_t> seed;
  std::string device;  // empty: where it was captured
  std::string budget = "100%";
  std::string host_budget;  // empty: as much as it takes
  bool as_is = false;       // no plan: it fits, or not
  std::string trace;        // where the timeline of the last step goes; empty: nowhere
  std::string output;       // where the state goes after the last step; empty: nowhere
  std::string profile;      // where the measured times go, likewise
  bool program = false;     // print it instead of running it
  bool json = false;        // print one object at the end instead of lines
  bool cache = true;        // measurements of earlier runs are used, and those of this one kept
  std::optional<int> threads;
};

// The exit status: 0, or 130 after Ctrl-C.
[[nodiscard]] Result<int> run(RunOptions options);

}  // namespace ebb::tool
