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
  std::string output;    // where the state goes after the last step; empty: nowhere
  std::string profile;   // where the measured times go, likewise
  bool program = false;  // print it instead of running it
  bool json = false;     // print one object at the end instead of lines
  std::optional<int> threads;
};

// The exit status: 0, or 130 after Ctrl-C.
[[nodiscard]] Result<int> run(const RunOptions& options);

}  // namespace ebb::tool
