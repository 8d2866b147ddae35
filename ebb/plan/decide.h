// Choices as decisions: what the rules do to a graph so that it runs as evaluate.h says.
//
// Clones first, from the last line to the first, then moves of clones, so that they stand in the
// order that was evaluated; then swaps, then moves of their lines. Triggers are what the rules ask
// for: the last operation above that all readers wait for.
#pragma once

#include <string>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/plan/evaluate.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {

// A rule said no.
struct RefusedChoice {
  std::uint32_t value = 0;
  Means means = Means::kSwap;
  std::string why;
};

// Rewrites the graph that the model was made of, or a copy of it, up to what a rule refuses first:
// then the graph is of no use.
std::optional<RefusedChoice> apply_choices(const StepModel& model, const Evaluation& evaluation,
                                           Rewriter& rewriter);

}  // namespace ebb
