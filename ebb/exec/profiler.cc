#include "ebb/exec/profiler.h"

#include <algorithm>
#include <unordered_map>

#include "ebb/base/check.h"
#include "ebb/graph/signature.h"

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

void Profiler::add_step(std::span<const Duration> times) {
  EBB_CHECK(times.size() == entry_of_.size(), "{} times for {} instructions", times.size(),
            entry_of_.size());
  if (steps_ == 1) {
    for (Entry& entry : entries_) entry.times.clear();
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (entry_of_[i] != kNone) entries_[entry_of_[i]].times.push_back(times[i]);
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

}  // namespace ebb::exec
