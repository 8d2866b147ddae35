#include "ebb/rewrite/lms_sync.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "ebb/graph/ebb_ops.h"

namespace ebb {
namespace {

// An operation or an input, and the swap-outs of what it makes.
struct Leaving {
  NodeId producer;
  std::vector<NodeId> swap_outs;
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
  std::unordered_map<NodeId, std::size_t> place;  // in `leaving`, by producer
  for (const JournalEntry& entry : rewriter.journal()) {
    const auto* swap = std::get_if<SwapDecision>(&entry.decision);
    if (swap == nullptr || !serves_backward_alone(*swap, phases)) continue;
    const NodeId producer = graph.producer(graph.root(graph.storage(swap->tensor)));
    if (phases[producer.index()] != LmsPhase::kForward) continue;
    for (const NodeId node : entry.added) {
      if (graph.op(node) != kSwapOut) continue;
      const auto [at, is_new] = place.try_emplace(producer, leaving.size());
      if (is_new) leaving.push_back({producer, {}});
      leaving[at->second].swap_outs.push_back(node);
    }
  }
  std::sort(leaving.begin(), leaving.end(), [&](const Leaving& a, const Leaving& b) {
    return rewriter.lines().is_before(a.producer, b.producer);
  });
  return leaving;
}

// The last one, from `last` on upwards, whose producer this one's waits for already; the number of
// them when there is none near by. Who does not wait for a producer may be run without it, and must
// not come to run it: models beside each other in a graph are none of each other's business. An
// input is there from the start and waits for nobody.
std::size_t find_awaited(const Rewriter& rewriter, const std::vector<Leaving>& leaving,
                         const std::vector<std::size_t>& earlier, std::int64_t last,
                         std::size_t waiting) {
  constexpr std::int64_t kNear = 8;
  for (std::int64_t i = last; i >= 0 && i > last - kNear; --i) {
    const std::size_t candidate = earlier[static_cast<std::size_t>(i)];
    if (rewriter.waits(leaving[waiting].producer, leaving[candidate].producer)) return candidate;
  }
  return leaving.size();
}

}  // namespace

LmsSync synchronize(Rewriter& rewriter, const std::vector<LmsPhase>& phases,
                    std::int64_t distance) {
  const Graph& graph = rewriter.graph();
  const std::vector<Leaving> leaving = find_leaving(rewriter, phases);
  std::map<std::pair<std::string, ScopeId>, std::vector<std::size_t>> places;  // in `leaving`
  LmsSync sync;
  for (std::size_t i = 0; i < leaving.size(); ++i) {
    const NodeId swap_out = leaving[i].swap_outs.front();
    auto& earlier = places[{std::string(graph.device(swap_out)), graph.scope(swap_out)}];
    const auto last = static_cast<std::int64_t>(earlier.size()) - distance;
    const std::size_t first = find_awaited(rewriter, leaving, earlier, last, i);
    const bool is_alone = first == leaving.size();
    for (const NodeId awaited : is_alone ? std::vector<NodeId>() : leaving[first].swap_outs) {
      const DelayDecision delay{leaving[i].producer, awaited};
      if (rewriter.apply(delay)) {
        sync.delays.push_back(delay);
      } else {
        ++sync.refused;
      }
    }
    earlier.push_back(i);
  }
  return sync;
}

}  // namespace ebb
