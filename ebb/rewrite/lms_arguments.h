// The parameters of the paper's driver as they are written where people give them: behind
// `ebb rewrite`, and in the call of Python's LMS.
//
//   command_line_arguments({.n_tensors = 20, .swap_branches = true})
//       == "--n-tensors 20 --lb 1 --swap-branches"
//   python_arguments({.n_tensors = 20, .swap_branches = true})
//       == "n_tensors=20, lb=1, swap_branches=True"
//
// n_tensors and lb always, the others where they are not the default.
#pragma once

#include <optional>
#include <string>

#include "ebb/rewrite/lms.h"

namespace ebb {

// Quoted for the shell where it has to be.
std::string command_line_arguments(const LmsOptions& options);
// Nothing where a codec is among them, which LMS does not have.
std::optional<std::string> python_arguments(const LmsOptions& options);

}  // namespace ebb
