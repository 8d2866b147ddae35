// Why a plan does with a tensor what it does: what each other choice would have led to.
//
//   %h: 64.0 MiB, made by 'h'
//     from 'a' to 'gh': swapped
//       kept instead: 1.3 GiB at 'gx', 12 MiB over the budget
//       computed again instead: 12.3 ms, 0.2 ms longer
#pragma once

#include <string>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/plan/plan.h"

namespace ebb {

// The tensor that somebody asks about, with or without `%`. kUsage where there is none of this
// name.
[[nodiscard]] Result<TensorId> find_explained(const Graph& graph, std::string_view name);

// Of a tensor of the graph that the plan was made for.
[[nodiscard]] Result<std::string> explain_tensor(const Graph& graph, const Planned& planned,
                                                 std::string_view name);

}  // namespace ebb
