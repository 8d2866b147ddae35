// The paper's driver at work: chooses what is computed again, what is swapped and who waits for it,
// applies that by the rules, and proves that the result is the same computation.
//
//   Result<LmsRewritten> done = rewrite_by_lms(graph, {.lb = 3});
//   std::cout << print(done->graph) << lms_summary(graph, *done);
//
// What the rule refuses though the driver chose it is left alone and reported like the rest. A
// rewrite that cannot be proved is our own bug, an InternalError: nobody gets such a graph.
#pragma once

#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/proof.h"
#include "ebb/rewrite/rewriter.h"

namespace ebb {

// Where the device holds most, in line order.
struct Peak {
  Bytes bytes;
  NodeId node;  // not valid in an empty graph
  Bytes host;   // most on the host, wherever that is
};
Peak find_peak(const Graph& graph);

struct LmsRewritten {
  Graph graph;
  LmsPlan plan;  // of what was done
  std::vector<JournalEntry> journal;
  Proof proof;
  Peak before;
  Peak after;
};

// Recomputes, then swaps, then delays for sync: all that the options ask for. The rewriter's graph
// is a copy of `original`, which the verifier accepts, and nothing was done to it yet; it is left
// for the caller to settle. Equal graphs and options give equal journals.
[[nodiscard]] Result<LmsPlan> apply_lms(const Graph& original, Rewriter& rewriter,
                                        const LmsOptions& options);

// Of a graph that the verifier accepts.
[[nodiscard]] Result<LmsRewritten> rewrite_by_lms(const Graph& graph, const LmsOptions& options,
                                                  const RewriterOptions& rewriting = {});

// For people: what is swapped, the peak with and without it, what was left alone and why.
std::string lms_summary(const Graph& original, const LmsRewritten& rewritten);
// For programs: one JSON object, with all that was left alone.
std::string lms_json(const Graph& original, const LmsRewritten& done, double seconds);

}  // namespace ebb
