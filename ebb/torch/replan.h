// The first steps of a plan, and what they say about it.
//
// An operation may take another time in the step than alone: other caches, copies beside it. So
// some of the first steps are timed. Where they took much longer than predicted, Step (step.h)
// plans once more, with the times that operations had in them, and goes on with what comes out if
// that is better by the same times. All that is kept for it until then is a Trial.
#pragma once

#include <span>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/exec/lanes.h"
#include "ebb/exec/profiler.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/program.h"
#include "ebb/plan/device.h"
#include "ebb/plan/plan.h"

namespace ebb::torch {

// What the first steps showed, where they took much longer than predicted.
struct Replanned {
  Duration measured{};   // what a step took
  Duration predicted{};  // what the plan had said
  Duration kept{};       // what it says with the times measured in these steps
  Duration anew{};       // what a plan says that is made with them
  bool is_used = false;  // the new one is
};

class Trial {
 public:
  // What it takes to plan once more, and who makes a profile of the plan that runs.
  Trial(Graph original, std::vector<Recipe> recipes, Device device, PlanOptions planning,
        exec::Profiler profiler);

  // The first step sets up caches and pages, and is not looked at.
  void note_first_step() { is_warm_ = true; }
  [[nodiscard]] bool wants_times() const { return is_warm_; }
  void add_step(std::span<const exec::Interval> times, Duration total);
  [[nodiscard]] bool is_over() const;  // enough were timed

  [[nodiscard]] Duration step() const;            // the median of those timed
  [[nodiscard]] Result<Profile> profile() const;  // what operations took in them
  [[nodiscard]] const Graph& original() const { return original_; }
  [[nodiscard]] const std::vector<Recipe>& recipes() const { return recipes_; }  // of the original
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] const PlanOptions& planning() const { return planning_; }

 private:
  Graph original_;
  std::vector<Recipe> recipes_;
  Device device_;
  PlanOptions planning_;
  exec::Profiler profiler_;
  std::vector<Duration> totals_;
  bool is_warm_ = false;
};

}  // namespace ebb::torch
