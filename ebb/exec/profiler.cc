#include "ebb/exec/profiler.h"

#include <algorithm>
#include <unordered_map>

#include "ebb/base/check.h"
#include "ebb/graph/convolution_backward.h"
#include "ebb/graph/signature.h"
#include "ebb/plan/splits.h"

namespace ebb::exec {
namespace {

// Of an even number, the lower one of the two in the middle.
Duration median(std::vector<Duration> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

Profiler::Profiler(const Graph& graph, const Program& program, std::span<const Recipe> recipes,
                   const LowerOptions& options) {
  std::unordered_map<std::string, std::size_t> known;
  entry_of_.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind != InstructionKind::kKernel) {
      entry_of_.push_back(kNone);
      continue;
    }
    const NodeId node = instruction.node;
    const auto [found, is_new] = known.try_emplace(signature(graph, node), entries_.size());
    if (is_new) {
      entries_.push_back(
          {.signature = found->first,
           .workspace = lay_out_workspace(recipes[node.index()], options.alignment).size,
           .times = {}});
    }
    entry_of_.push_back(found->second);
  }
}

void Profiler::add_step(std::span<const Interval> times) {
  EBB_CHECK(times.size() == entry_of_.size(), "{} times for {} instructions", times.size(),
            entry_of_.size());
  if (steps_ == 1) {
    for (Entry& entry : entries_) entry.times.clear();
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (entry_of_[i] != kNone)
      entries_[entry_of_[i]].times.push_back(times[i].end - times[i].start);
  }
  ++steps_;
}

Result<Profile> Profiler::profile(std::string device) const {
  EBB_CHECK(steps_ > 0, "a profile of no step");
  std::vector<ProfiledOperation> operations;
  operations.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    operations.push_back({entry.signature, median(entry.times), entry.workspace});
  }
  return Profile::make(std::move(device), std::move(operations));
}

Result<Profile> with_split_calls(const Profile& profile, const Graph& graph, Kernels& kernels,
                                 const LowerOptions& options) {
  const Graph split = with_splits(graph, find_splittable(graph));
  std::vector<ProfiledOperation> operations = with_halves(profile, graph).operations();
  std::unordered_map<std::string_view, ProfiledOperation*> unmeasured;
  for (ProfiledOperation& each : operations) {
    if (profile.find(each.signature) == nullptr) unmeasured.emplace(each.signature, &each);
  }
  for (const NodeId node : split.order()) {
    if (split.op(node) != kConvolutionBackward) continue;
    const auto found = unmeasured.find(signature(split, node));
    if (found == unmeasured.end()) continue;
    const auto recipe = kernels.measure(split, node);
    if (!recipe) return fail(recipe.error());
    const auto time = kernels.time(split, node);
    if (!time) return fail(time.error());
    found->second->time = *time;
    found->second->workspace = lay_out_workspace(*recipe, options.alignment).size;
    unmeasured.erase(found);
  }
  return Profile::make(profile.device(), std::move(operations));
}

}  // namespace ebb::exec
