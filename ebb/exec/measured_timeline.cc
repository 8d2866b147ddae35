#include "ebb/exec/measured_timeline.h"

#include <algorithm>

#include "ebb/base/check.h"

namespace ebb::exec {
namespace {

// Why an instruction waited for a copy: it reads what comes back, or takes the bytes that leave, or
// was told to.
StallCause cause_of(const Graph& graph, const Instruction& waiting, const Instruction& copy) {
  const auto controls = graph.controls(waiting.node);
  if (std::find(controls.begin(), controls.end(), copy.node) != controls.end()) {
    return StallCause::kControl;
  }
  return copy.lane == Lane::kToDevice ? StallCause::kArrival : StallCause::kRelease;
}

}  // namespace

Timeline measured_timeline(const Graph& graph, const Program& program,
                           std::span<const Interval> times) {
  EBB_CHECK(times.size() == program.instructions.size(), "{} times for {} instructions",
            times.size(), program.instructions.size());
  Timeline timeline;
  Duration computed{};  // until when the compute lane has worked
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const Interval& time = times[i];
    if (time.end <= time.start) continue;
    timeline.spans.push_back({instruction.node, instruction.lane, time.start, time.end});
    timeline.busy[static_cast<std::size_t>(instruction.lane)] += time.end - time.start;
    timeline.total = std::max(timeline.total, time.end);
    if (instruction.lane != Lane::kCompute) continue;
    for (const std::uint32_t awaited : program.waits_of(instruction)) {
      const Duration until = std::min(times[awaited].end, time.start);
      if (until <= computed) continue;
      const StallCause cause = cause_of(graph, instruction, program.instructions[awaited]);
      timeline.stalls.push_back(
          {instruction.node, program.instructions[awaited].node, cause, computed, until});
      timeline.stalled[static_cast<std::size_t>(cause)] += until - computed;
      computed = until;
    }
    computed = std::max(computed, time.end);
  }
  std::stable_sort(timeline.spans.begin(), timeline.spans.end(),
                   [](const Span& a, const Span& b) { return a.start < b.start; });
  return timeline;
}

}  // namespace ebb::exec
