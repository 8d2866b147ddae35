// The parameters of the paper's driver as options of a command.
#pragma once

#include <CLI/CLI.hpp>

#include "ebb/rewrite/lms.h"

namespace ebb::tool {

// The groups of options in --help.
inline constexpr const char* kPaperGroup = "The paper's parameters";
inline constexpr const char* kMoreGroup = "And more";

// Lists are given with commas, or by giving the option again. Whether the values make sense is the
// driver's to say, who knows the graph.
void add_lms_options(CLI::App& command, LmsOptions& options);
// Without those that `ebb tune` finds: n_tensors, lb, ctrld_strategy and swap_branches.
void add_untuned_lms_options(CLI::App& command, LmsOptions& options);

}  // namespace ebb::tool
