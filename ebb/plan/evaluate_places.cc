// What the lines that an evaluation has made need places for.
#include <algorithm>

#include "ebb/plan/evaluate.h"

namespace ebb {

Bytes Evaluator::state_size() const {
  Bytes size;
  for (const StepModel::Value& value : model_.values) {
    if (value.stays && value.producer == kNone) size += value.size;
  }
  return size;
}

std::vector<LayoutBuffer> Evaluator::buffers() const {
  std::vector<LayoutBuffer> buffers;
  buffers.reserve(out_.stays.size() + out_.lines.size());
  const auto add = [&](Bytes size, std::uint32_t first, std::uint32_t last) {
    if (size.count > 0) buffers.push_back({.size = size, .first = first, .last = last, .at = {}});
  };
  // Who lies in another's bytes ends after it.
  std::vector<std::uint32_t> buffer_of(out_.stays.size(), kNone);
  for (std::uint32_t i = 0; i < out_.stays.size(); ++i) {
    const PlannedStay& stay = out_.stays[i];
    const StepModel::Value& value = model_.values[stay.value];
    const bool is_state = value.stays && value.producer == kNone;
    if (!stay.is_over || is_state || value.size.count == 0) continue;
    const State& state = states_[stay.value];
    std::uint32_t last = stay.last;
    if (state.is_swapped_out && state.original_stay == i) {
      const std::uint32_t released = out_.outs[state.copied_out].line;
      last = std::max(last, released > 0 ? released - 1 : 0);
    }
    const bool is_in_place = stay.taken_from != kNone && out_.stays[stay.taken_from].is_taken;
    if (is_in_place && buffer_of[stay.taken_from] != kNone) {
      buffer_of[i] = buffer_of[stay.taken_from];
      buffers[buffer_of[i]].last = last;
      continue;
    }
    buffer_of[i] = static_cast<std::uint32_t>(buffers.size());
    add(value.size, stay.swap_in == kNone ? stay.first : out_.ins[stay.swap_in].line, last);
  }
  for (std::uint32_t line = 0; line < out_.lines.size(); ++line) {
    const PlannedLine& at = out_.lines[line];
    const StepModel::Operation& it = model_.operations[at.operation];
    add(it.workspace, line, line);
    if (!at.is_clone) continue;
    add(it.updated, line_of_[at.operation], line);
    for (const std::uint32_t value : model_.results_of(at.operation)) {
      if (value != at.cloned) add(model_.values[value].size, line, line);
    }
  }
  return buffers;
}

}  // namespace ebb
