#include "ebb/rewrite/lms_sync.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "ebb/graph/ebb_ops.h"

namespace ebb {
namespace {

struct Leaving {
  NodeId producer;
  NodeId swap_out;
};

bool serves_backward_alone(const SwapDecision& swap, const std::vector<LmsPhase>& phases) {
  return std::all_of(swap.groups.begin(), swap.groups.end(), [&](const ReaderGroup& group) {
    return std::all_of(group.readers.begin(), group.readers.end(), [&](NodeId reader) {
      return phases[reader.index()] == LmsPhase::kBackward;
    });
  });
}

// What forward operations make and backward operations read, in line order.
std::vector<Leaving> find_leaving(const Rewriter& rewriter, const std::vector<LmsPhase>& phases) {
  const Graph& graph = rewriter.graph();
  std::vector<Leaving> leaving;
  for (const JournalEntry& entry : rewriter.journal()) {
    const auto* swap = std::get_if<SwapDecision>(&entry.decision);
    if (swap == nullptr || !serves_backward_alone(*swap, phases)) continue;
    const NodeId producer = graph.producer(graph.root(graph.storage(swap->tensor)));
    if (phases[producer.index()] != LmsPhase::kForward) continue;
    for (const NodeId node : entry.added) {
      if (graph.op(node) == kSwapOut) leaving.push_back({producer, node});
    }
  }
  // Of one producer in the order in which its results are swapped.
  std::stable_sort(leaving.begin(), leaving.end(), [&](const Leaving& a, const Leaving& b) {
    return rewriter.lines().is_before(a.producer, b.producer);
  });
  return leaving;
}

}  // namespace

LmsSync synchronize(Rewriter& rewriter, const std::vector<LmsPhase>& phases,
                    std::int64_t distance) {
  const Graph& graph = rewriter.graph();
  std::map<std::pair<std::string, ScopeId>, std::vector<NodeId>>
      swap_outs;  // so far, of each place
  LmsSync sync;
  for (const auto& [producer, swap_out] : find_leaving(rewriter, phases)) {
    auto& earlier = swap_outs[{std::string(graph.device(swap_out)), graph.scope(swap_out)}];
    const auto count = static_cast<std::int64_t>(earlier.size());
    // An input is there from the start and waits for nobody.
    if (count >= distance && graph.is_op(producer)) {
      const DelayDecision delay{producer, earlier[static_cast<std::size_t>(count - distance)]};
      if (rewriter.apply(delay)) {
        sync.delays.push_back(delay);
      } else {
        ++sync.refused;
      }
    }
    earlier.push_back(swap_out);
  }
  return sync;
}

}  // namespace ebb
