// Running a step that is ready, by calls or as the lanes have kept it.
#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/torch/gpu.h"
#include "ebb/torch/no_fill.h"
#include "ebb/torch/replan.h"
#include "ebb/torch/step.h"

namespace ebb::torch {
namespace {

// No step is being kept any more at its end, whatever happened.
class DropNext {
 public:
  explicit DropNext(exec::Lanes& lanes) : lanes_(lanes) {}
  DropNext(const DropNext&) = delete;
  DropNext& operator=(const DropNext&) = delete;
  ~DropNext() { lanes_.drop_next(); }

 private:
  exec::Lanes& lanes_;
};

// 0.0 and -0.0 are different numbers to a kernel, and a NaN is the same one.
bool are_same(std::span<const exec::Number> some, std::span<const exec::Number> others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const exec::Number& one, const exec::Number& other) {
                      const auto* const a = std::get_if<double>(&one);
                      const auto* const b = std::get_if<double>(&other);
                      if (a == nullptr || b == nullptr) return one == other;
                      return std::bit_cast<std::uint64_t>(*a) == std::bit_cast<std::uint64_t>(*b);
                    });
}

}  // namespace

// Whether the same calls do the same in every step: nothing random, no number that comes from the
// device while the step is put into its stream, and no memory that is another's tomorrow. Operators
// that are not PyTorch's may run Python: a thread that has its lock may be waiting for us to end.
// What swaps is slower in a graph of CUDA's (docs/decisions, 49).
bool Step::can_be_kept() const {
  if (program().host_size.count > 0) return false;
  for (const Serving& serving : program().servings) {
    if (serving.offset == Serving::kElsewhere) return false;
  }
  for (const NodeId node : graph().order()) {
    if (!graph().is_op(node)) continue;
    if (graph().effect(node) != Effect::kPure) return false;
    if (instruction_kind(graph(), node) != InstructionKind::kKernel) continue;
    if (graph().scalar_result(node).valid() || !graph().op(node).starts_with("aten::"))
      return false;
  }
  return true;
}

Status Step::run_or_replay(exec::Scalars& scalars, const exec::Executor::Interrupted& interrupted,
                           bool is_timed) {
  constexpr int kEnough = 3;  // steps with the same numbers: they do not change every time
  exec::Lanes& lanes = backend_->lanes();
  if (keeping_ == Keeping::kNever || is_timed) {
    return executor_->run(scalars, interrupted, is_timed);
  }
  std::vector<exec::Number> given;
  for (const ScalarId scalar : graph().scalars()) {
    if (graph().kind(graph().producer(scalar)) == NodeKind::kScalar)
      given.push_back(scalars[scalar]);
  }
  if (!are_same(given, last_given_)) {
    last_given_ = std::move(given);
    same_given_ = 0;
    keeping_ = Keeping::kNotYet;
  }
  if (keeping_ == Keeping::kKept) {
    if (interrupted && interrupted()) {
      return fail(ErrorKind::kRefused, "interrupted; the state is as before the step");
    }
    return replay(scalars, interrupted);
  }
  if (++same_given_ < kEnough) return executor_->run(scalars, interrupted, is_timed);
  if (!lanes.keep_next()) return executor_->run(scalars, interrupted, is_timed);
  Status kept = [&] {
    const DropNext drop(lanes);
    return executor_->run(scalars, nullptr, /*is_timed=*/false);
  }();
  if (kept) {
    keeping_ = Keeping::kKept;
    return replay(scalars, interrupted);
  }
  // Some kernel cannot be kept. Nothing was done, so it is done now, and from now on.
  keeping_ = Keeping::kNever;
  return executor_->run(scalars, interrupted, is_timed);
}

Status Step::replay(exec::Scalars& scalars, const exec::Executor::Interrupted& interrupted) {
  if (Status ok = backend_->lanes().replay(); ok) return ok;
  // Nothing was done either: there may be no memory for it any more, which calls do not need.
  keeping_ = Keeping::kNever;
  return executor_->run(scalars, interrupted);
}

Result<exec::Scalars> Step::values_of(const std::map<std::string, exec::Number>& scalars) const {
  exec::Scalars values(graph());
  std::size_t found = 0;
  for (const ScalarId scalar : graph().scalars()) {
    if (graph().kind(graph().producer(scalar)) != NodeKind::kScalar) continue;
    const auto value = scalars.find(std::string(graph().name(scalar)));
    if (value == scalars.end()) {
      return fail(ErrorKind::kUsage,
                  fmt::format("the step needs a value for its scalar ${}", graph().name(scalar)));
    }
    auto converted = exec::convert(value->second, graph().dtype(scalar));
    if (!converted) return fail(converted.error());
    values.set(scalar, *converted);
    ++found;
  }
  if (found == scalars.size()) return values;
  for (const auto& [name, value] : scalars) {
    const ScalarId scalar = graph().find_scalar(name);
    if (scalar.valid() && graph().kind(graph().producer(scalar)) == NodeKind::kScalar) continue;
    NearestWord nearest(name);
    for (const ScalarId known : graph().scalars()) nearest.offer(graph().name(known));
    std::string message = fmt::format("the step has no scalar ${}", printable(name));
    if (!nearest.word().empty()) message += fmt::format("; did you mean ${}?", nearest.word());
    return fail(ErrorKind::kUsage, message);
  }
  return values;
}

Status Step::run(const std::map<std::string, exec::Number>& scalars,
                 const exec::Executor::Interrupted& interrupted, bool is_timed,
                 const TellProgress& progress) {
  is_done_ = false;
  auto values = values_of(scalars);
  if (!values) return fail(std::move(values.error()));
  const NoFill no_fill;
  const OnDevice on(device_, *backend_);
  was_timed_ = is_timed;
  // What the caller wants times of stays as it is until he has them.
  const bool is_tried = trial_ != nullptr && !is_timed;
  const bool times_are_wanted = is_tried && trial_->wants_times();
  if (Status ok = run_or_replay(*values, interrupted, is_timed || times_are_wanted); !ok) return ok;
  is_done_ = true;
  ++runs_done_;
  if (times_are_wanted) return look_at_times(progress);
  if (is_tried) trial_->note_first_step();
  return {};
}

Result<std::vector<exec::Interval>> Step::times() {
  if (!was_timed_) return std::vector<exec::Interval>();
  return backend_->lanes().times();
}

}  // namespace ebb::torch
