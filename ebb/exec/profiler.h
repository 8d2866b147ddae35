// Makes a profile of a step from runs of it.
//
//   Profiler profiler(graph, program, recipes);
//   Status ok = executor.run(scalars, nullptr, /*is_timed=*/true);   // some steps
//   profiler.add_step(*lanes.times());
//   Result<Profile> profile = profiler.profile("cpu");
//
// One entry for each signature that a kernel of the program has; copies and arithmetic are in no
// profile. Its time is the median over all operations that have the signature and all steps that
// count: the first one sets up caches and pages, and counts only where it is the only one. Its
// workspace is what lower reserves for the temporaries.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/exec/kernel.h"
#include "ebb/exec/lanes.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/program.h"
#include "ebb/lower/recipe.h"
#include "ebb/plan/profile.h"

namespace ebb::exec {

class Profiler {
 public:
  // `recipes` by node. Graph and recipes are those that the program was made from.
  Profiler(const Graph& graph, const Program& program, std::span<const Recipe> recipes,
           const LowerOptions& options = {});

  // What the lanes have noted, by instruction.
  void add_step(std::span<const Interval> times);

  // At least one step must have been added.
  [[nodiscard]] Result<Profile> profile(std::string device) const;

 private:
  struct Entry {
    std::string signature;
    Bytes workspace;
    std::vector<Duration> times;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::vector<std::size_t> entry_of_;  // by instruction; kNone for what is no kernel
  std::vector<Entry> entries_;
  std::size_t steps_ = 0;
};

// The profile with what plans may make of the step as well: the two calls of each one that can be
// split (plan/splits.h). What these take, and their workspaces, is measured here.
[[nodiscard]] Result<Profile> with_split_calls(const Profile& profile, const Graph& graph,
                                               Kernels& kernels, const LowerOptions& options = {});

}  // namespace ebb::exec
