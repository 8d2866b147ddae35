#include "ebb/rewrite/lms_recompute.h"

#include <algorithm>
#include <ranges>
#include <unordered_map>

#include <fmt/format.h>

#include "ebb/rewrite/lms_candidates.h"
#include "ebb/rewrite/lms_names.h"
#include "ebb/rewrite/lms_walk.h"

namespace ebb {
namespace {

// Somebody who reads in the backward phase.
struct LateReader {
  NodeId node;
  std::int64_t level = 0;  // γ; a clone's is one after its trigger's
  NodeId trigger;          // of a clone, whose operands can wait for no better one
  int chain = 0;           // how many clones from here to an operation of the original
  [[nodiscard]] bool is_clone() const { return trigger.valid(); }
};

// Readers of one clone.
struct Group {
  ReaderGroup readers;
  int chain = 0;  // of the clone

  void add(const LateReader& reader) {
    readers.readers.push_back(reader.node);
    chain = std::max(chain, reader.chain + 1);
  }
};

class Recomputing {
 public:
  Recomputing(const Graph& original, const LmsOptions& options, Rewriter& rewriter, LmsPlan& plan)
      : graph_(original),
        options_(options),
        rewriter_(rewriter),
        plan_(plan),
        candidates_(original, options),
        clone_readers_(original.storage_count()) {}

  void run() {
    plan_.backward_operations = candidates_.backward_operations();
    std::vector<bool> is_reached(graph_.node_count());
    for (const NodeId node : walk_order(graph_, options_, candidates_.edges())) {
      is_reached[node.index()] = true;
    }
    for (const NodeId node : graph_.order() | std::views::reverse) {
      if (!is_reached[node.index()]) continue;
      if (!is_of_any_type(graph_.op(node), options_.recompute_types)) continue;
      for (const TensorId result : graph_.results(node)) {
        if (graph_.root(graph_.storage(result)) == result) consider(result);
      }
    }
  }

 private:
  void consider(TensorId tensor) {
    const StorageId storage = graph_.storage(tensor);
    if (candidates_.reason_to_stay(storage) || candidates_.obstacle_to(storage)) return;
    const std::vector<Group> groups = group_readers(tensor, find_readers(tensor));
    if (groups.empty()) return;
    RecomputeDecision decision{.tensor = tensor, .groups = {}};
    for (const Group& group : groups) decision.groups.push_back(group.readers);
    if (const Status done = rewriter_.apply(decision); !done) {
      for (const ReaderGroup& group : decision.groups) {
        for (const NodeId reader : group.readers) refuse(tensor, reader, done.error().message);
      }
      return;
    }
    note_clones(graph_.producer(tensor), groups);
    plan_.recomputations += groups.size();
    const auto size = graph_.size(storage);
    plan_.bytes_recomputed += size.value_or(Bytes{});
    plan_.unknown_recomputed += size ? 0 : 1;
    plan_.recomputes.push_back(std::move(decision));
  }

  void refuse(TensorId tensor, NodeId reader, std::string why) {
    plan_.refused.push_back({tensor, reader, LmsRefusal::kNotRecomputed, std::move(why)});
  }

  // Those of the original, and clones of what reads it.
  std::vector<LateReader> find_readers(TensorId tensor) {
    const StorageId storage = graph_.storage(tensor);
    const NodeId producer = graph_.producer(tensor);
    std::vector<LateReader> readers;
    for (const NodeId reader : candidates_.edges().readers(storage)) {
      if (!candidates_.is_forward_to_backward(producer, reader)) continue;
      if (candidates_.obstacle_between(storage, reader)) continue;
      readers.push_back({reader, candidates_.level(reader), {}, 0});
    }
    for (const LateReader& clone : clone_readers_[storage.index()]) {
      const Graph& now = rewriter_.graph();
      if (now.device(clone.node) != graph_.device(producer)) continue;
      if (now.scope(clone.node) != graph_.scope(producer)) continue;
      if (clone.chain < kLongestChain) {
        readers.push_back(clone);
      } else {
        refuse(tensor, clone.node,
               fmt::format("'{}' is the last of a chain of {} clones, which is long enough",
                           now.name(clone.node), kLongestChain));
      }
    }
    std::stable_sort(readers.begin(), readers.end(),
                     [](const LateReader& a, const LateReader& b) { return a.level < b.level; });
    return readers;
  }

  // As for a swap, but what would be made after the same trigger is made once.
  std::vector<Group> group_readers(TensorId tensor, const std::vector<LateReader>& readers) {
    std::vector<Group> groups;
    std::unordered_map<NodeId, std::size_t> group_of_trigger;
    const std::int64_t reach = options_.fuse_swapins ? options_.fuse_distance : -1;
    std::vector<bool> is_grouped(readers.size());
    for (std::size_t i = 0; i < readers.size(); ++i) {
      const LateReader& first = readers[i];
      if (is_grouped[i]) continue;
      const NodeId trigger = first.is_clone()
                                 ? first.trigger
                                 : candidates_.find_trigger(graph_.producer(tensor), first.node);
      if (!trigger.valid()) continue;
      const auto [at, is_new] = group_of_trigger.try_emplace(trigger, groups.size());
      if (is_new) groups.push_back({.readers = {{}, trigger}, .chain = 0});
      Group& group = groups[at->second];
      group.add(first);
      for (std::size_t j = i + 1; j < readers.size(); ++j) {
        if (readers[j].level - first.level > reach) break;
        if (is_grouped[j] || !waits(readers[j], trigger)) continue;
        is_grouped[j] = true;
        group.add(readers[j]);
      }
    }
    return groups;
  }

  // A clone waits for what its trigger waits for. (One that has this trigger itself joins by that.)
  bool waits(const LateReader& reader, NodeId trigger) {
    return candidates_.waits(reader.is_clone() ? reader.trigger : reader.node, trigger);
  }

  // What the clones read has more readers now.
  void note_clones(NodeId original, const std::vector<Group>& groups) {
    const Graph& now = rewriter_.graph();
    auto group = groups.begin();
    for (const NodeId clone : rewriter_.journal().back().added) {
      if (now.clone_of(clone) != original) continue;  // a snapshot, or a view made again
      const NodeId trigger = group->readers.trigger;
      const LateReader reader{clone, candidates_.level(trigger) + 1, trigger, group->chain};
      for (const Operand& operand : now.operands(clone)) {
        if (!operand.tensor.valid()) continue;
        const StorageId storage = now.storage(operand.tensor);
        if (storage.index() >= clone_readers_.size()) continue;  // a snapshot
        auto& known = clone_readers_[storage.index()];
        if (known.empty() || known.back().node != clone) known.push_back(reader);
      }
      ++group;
    }
  }

  const Graph& graph_;
  const LmsOptions& options_;
  Rewriter& rewriter_;
  LmsPlan& plan_;
  LmsCandidates candidates_;
  std::vector<std::vector<LateReader>> clone_readers_;  // by storage of the original
};

}  // namespace

void choose_recomputes(const Graph& original, const LmsOptions& options, Rewriter& rewriter,
                       LmsPlan& plan) {
  Recomputing(original, options, rewriter, plan).run();
}

}  // namespace ebb
