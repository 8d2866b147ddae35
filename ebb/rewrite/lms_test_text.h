// Plans of the driver as text, for tests: one line a decision, then one a refusal.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ebb/graph/parse.h"
#include "ebb/rewrite/lms.h"

namespace ebb {

// "swap %a for gb after gc for ga after gb as zip", "left %c for gc: no trigger ...".
inline std::string plan_text(const Graph& graph, const LmsPlan& plan) {
  std::string out;
  for (const SwapDecision& swap : plan.swaps) {
    out += fmt::format("swap %{}", graph.name(swap.tensor));
    for (const ReaderGroup& group : swap.groups) {
      std::string_view before = " for ";
      for (const NodeId reader : group.readers) {
        out += fmt::format("{}{}", before, graph.name(reader));
        before = ", ";
      }
      out += fmt::format(" after {}", graph.name(group.trigger));
    }
    out += swap.codec.empty() ? "\n" : fmt::format(" as {}\n", swap.codec);
  }
  for (const LmsRefused& refused : plan.refused) {
    out += fmt::format("left %{} for {}: {}\n", graph.name(refused.tensor),
                       graph.name(refused.consumer), describe(refused.reason));
  }
  return out;
}

// The plan for a graph in text form, or the error.
inline std::string chosen(std::string_view text, const LmsOptions& options = {}) {
  const auto graph = parse_valid(text);
  if (!graph) return graph.error().render("test.ebb");
  const auto plan = choose_swaps(*graph, options);
  return plan ? plan_text(*graph, *plan) : plan.error().message;
}

}  // namespace ebb
