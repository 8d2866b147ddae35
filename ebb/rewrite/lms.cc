#include "ebb/rewrite/lms.h"

#include <algorithm>

#include "ebb/rewrite/codec.h"
#include "ebb/rewrite/lms_candidates.h"
#include "ebb/rewrite/lms_names.h"
#include "ebb/rewrite/lms_walk.h"

namespace ebb {
namespace {

class Driver {
 public:
  Driver(const Graph& graph, const LmsOptions& options, const TrySwap& try_swap)
      : graph_(graph),
        options_(options),
        try_swap_(try_swap),
        candidates_(graph, options),
        is_considered_(graph.storage_count()) {}

  LmsPlan run() {
    plan_.backward_operations = candidates_.backward_operations();
    if (options_.n_tensors == 0) return std::move(plan_);
    for (const NodeId node : walk_order(graph_, options_, candidates_.edges())) {
      for (const TensorId result : graph_.results(node)) {
        consider(graph_.storage(result));
        if (static_cast<std::int64_t>(plan_.swaps.size()) == options_.n_tensors) {
          return std::move(plan_);
        }
      }
    }
    return std::move(plan_);
  }

 private:
  // Decides about one storage, when the walk first comes to a tensor in it.
  void consider(StorageId storage) {
    if (is_considered_[storage.index()]) return;
    is_considered_[storage.index()] = true;
    const TensorId tensor = graph_.root(storage);
    const NodeId producer = graph_.producer(tensor);
    const auto reason_to_stay =
        is_of_wanted_type(producer) ? candidates_.reason_to_stay(storage) : LmsRefusal::kExcluded;
    std::vector<NodeId> readers;
    for (const NodeId reader : candidates_.edges().readers(storage)) {
      if (!candidates_.is_candidate(producer, reader)) continue;
      const auto reason =
          reason_to_stay ? reason_to_stay : candidates_.obstacle_between(storage, reader);
      if (reason) {
        plan_.refused.push_back({tensor, reader, *reason});
      } else {
        readers.push_back(reader);
      }
    }
    SwapDecision swap{.tensor = tensor, .groups = {}, .codec = {}};
    group_readers(tensor, std::move(readers), swap.groups);
    if (swap.groups.empty()) return;
    if (!options_.codec.empty()) {
      const bool takes_it = encoded_type(options_.codec, graph_.type(tensor)).has_value() &&
                            !find_unserved(graph_, tensor, swap.groups, options_.codec);
      if (takes_it) swap.codec = options_.codec;
      swap.codec_side = options_.codec_on_host ? CodecSide::kHost : CodecSide::kDevice;
    }
    if (try_swap_ && !is_taken(swap)) return;
    plan_.is_lossy =
        plan_.is_lossy || (!swap.codec.empty() && !find_codec(swap.codec)->is_lossless);
    plan_.not_encoded += !options_.codec.empty() && swap.codec.empty() ? 1 : 0;
    plan_.swap_ins += swap.groups.size();
    const auto size = graph_.size(storage);
    plan_.bytes += size.value_or(Bytes{});
    plan_.unknown_sizes += size ? 0 : 1;
    plan_.swaps.push_back(std::move(swap));
  }

  [[nodiscard]] bool is_of_wanted_type(NodeId producer) const {
    const std::string_view op = graph_.op(producer);
    if (is_of_any_type(op, options_.excl_types)) return false;
    return options_.incl_types.empty() || is_of_any_type(op, options_.incl_types);
  }

  // Otherwise its edges are left alone.
  bool is_taken(const SwapDecision& swap) {
    const Status taken = try_swap_(swap);
    if (taken) return true;
    for (const ReaderGroup& group : swap.groups) {
      for (const NodeId reader : group.readers) {
        plan_.refused.push_back({swap.tensor, reader, LmsRefusal::kByRule, taken.error().message});
      }
    }
    return false;
  }

  // Finds triggers, and refuses readers that have none. The trigger of a group is that of its first
  // reader; a reader that does not wait for it is left for another group.
  void group_readers(TensorId tensor, std::vector<NodeId> readers,
                     std::vector<ReaderGroup>& groups) {
    std::stable_sort(readers.begin(), readers.end(), [this](NodeId a, NodeId b) {
      return candidates_.level(a) < candidates_.level(b);
    });
    const std::int64_t reach = options_.fuse_swapins ? options_.fuse_distance : -1;
    std::vector<bool> is_grouped(readers.size());
    for (std::size_t i = 0; i < readers.size(); ++i) {
      if (is_grouped[i]) continue;
      const NodeId trigger = candidates_.find_trigger(graph_.producer(tensor), readers[i]);
      if (!trigger.valid()) {
        plan_.refused.push_back({tensor, readers[i], LmsRefusal::kNoTrigger});
        continue;
      }
      ReaderGroup group{.readers = {readers[i]}, .trigger = trigger};
      for (std::size_t j = i + 1;
           j < readers.size() && candidates_.levels_between(readers[i], readers[j]) <= reach; ++j) {
        if (is_grouped[j] || !candidates_.waits(readers[j], trigger)) continue;
        is_grouped[j] = true;
        group.readers.push_back(readers[j]);
      }
      groups.push_back(std::move(group));
    }
  }

  const Graph& graph_;
  const LmsOptions& options_;
  const TrySwap& try_swap_;
  LmsCandidates candidates_;
  std::vector<bool> is_considered_;  // by storage
  LmsPlan plan_;
};

}  // namespace

Result<LmsPlan> choose_swaps(const Graph& graph, const LmsOptions& options,
                             const TrySwap& try_swap) {
  if (auto status = check_lms_options(graph, options); !status) return fail(status.error());
  return Driver(graph, options, try_swap).run();
}

}  // namespace ebb
