#include "examples/training_step.h"

#include <limits>

#include <fmt/format.h>

namespace ebb::examples {

Kernel& Kernel::flops(double count) {
  flops_ = count;
  return *this;
}

Kernel& Kernel::moves(double bytes) {
  bytes_ = bytes;
  bytes_are_stated_ = true;
  return *this;
}

Kernel& Kernel::attr(std::string_view key, const BuilderValue& value) {
  op_.attr(key, value);
  return *this;
}

Kernel& Kernel::attr(std::string_view key, const Dims& values) {
  op_.attr(key, std::vector<BuilderValue>(values.begin(), values.end()));
  return *this;
}

Kernel& Kernel::attr(std::string_view key, std::initializer_list<bool> values) {
  op_.attr(key, std::vector<BuilderValue>(values.begin(), values.end()));
  return *this;
}

Kernel& Kernel::workspace(Bytes bytes) {
  op_.workspace(bytes);
  return *this;
}

Kernel& Kernel::random() {
  op_.random();
  return *this;
}

void Kernel::count(double bytes) {
  if (!bytes_are_stated_) bytes_ += bytes;
  const double before = nanoseconds_;
  nanoseconds_ = estimated_nanoseconds(flops_, bytes_);
  step_.spend(nanoseconds_ - before);
  if (!step_.error_) op_.takes(Duration(static_cast<Duration::rep>(nanoseconds_)));
}

TensorId Kernel::makes(std::string_view name, const TensorType& type) {
  const TensorType good = step_.admitted(name, type);
  count(bytes_moved(good));
  return op_.makes(name, good);
}

TensorId Kernel::makes_next(TensorId updated) {
  const Graph& graph = step_.graph();
  count(bytes_moved(graph.type(updated)));
  const std::string name = fmt::format("{}.{}", graph.name(graph.root(graph.storage(updated))),
                                       graph.version(updated) + 1);
  return op_.makes_next(name, updated);
}

TensorId Kernel::makes_view(std::string_view name, const TensorType& type, TensorId of,
                            Bytes offset) {
  op_.takes(Duration(0));
  if (defect(type)) return op_.makes(name, step_.refused(name, type));
  if (!step_.error_) offset += step_.graph().offset(of);
  return op_.makes_view(name, type, of, offset);
}

TrainingStep::TrainingStep(std::string_view name, std::unique_ptr<Optimizer> optimizer,
                           bool update_early)
    : builder_(name), optimizer_(std::move(optimizer)), update_early_(update_early) {}

void TrainingStep::remember(std::string message) {
  if (error_) return;
  error_ =
      Error{.kind = ErrorKind::kBadInput, .code = {}, .message = std::move(message), .place = {}};
}

// Whoever adds up the bytes of a step, of however few of its tensors, must not overflow.
TensorType TrainingStep::admitted(std::string_view name, const TensorType& type) {
  if (is_too_large(type)) return refused(name, type);
  const std::int64_t bytes = extent(type).value_or(Bytes{}).count;
  if (bytes > std::numeric_limits<std::int64_t>::max() - total_bytes_) return refused(name, type);
  total_bytes_ += bytes;
  return type;
}

// Something small of the same rank in the place of what does not fit, so that layers may go on.
TensorType TrainingStep::refused(std::string_view name, TensorType type) {
  remember(
      fmt::format("with %{} the tensors have more than 2^63-1 bytes; use smaller sizes", name));
  type.dims.assign(type.dims.size(), 1);
  type.strides.clear();
  return type;
}

void TrainingStep::spend(double nanoseconds) {
  total_nanoseconds_ += nanoseconds;
  constexpr double kMost = 0x1p62;
  if (!(total_nanoseconds_ < kMost)) {
    remember("the step takes longer than a century; use smaller sizes");
  }
}

TensorId TrainingStep::input(std::string_view name, const TensorType& type) {
  return builder_.input(name, admitted(name, type));
}

TensorId TrainingStep::constant(std::string_view name, const TensorType& type) {
  return builder_.constant(name, admitted(name, type));
}

TensorId TrainingStep::buffer(std::string_view name, const Dims& dims) {
  return builder_.param(name, admitted(name, f32(dims)));
}

TensorId TrainingStep::weight(std::string_view name, const Dims& dims) {
  const TensorId weight = buffer(name, dims);
  record(weight).wanted = true;
  record(weight).weight = static_cast<std::uint32_t>(weights_.size());
  weights_.push_back(Trained{.weight = weight, .state = {}, .gradient = {}});
  return weight;
}

ScalarId TrainingStep::scalar(std::string_view name) { return builder_.scalar(name); }

void TrainingStep::start() {
  for (Trained& trained : weights_) optimizer_->declare_state(*this, trained);
  optimizer_->declare_scalars(*this);
}

Kernel TrainingStep::kernel(std::string_view op, const std::vector<BuilderOperand>& operands) {
  double bytes = 0;
  for (const BuilderOperand& operand : operands) {
    for (const Operand& part : operand.parts) {
      if (part.tensor.valid()) bytes += bytes_moved(graph().type(part.tensor));
    }
  }
  return Kernel(*this, builder_.op(op, operands), bytes);
}

ScalarId TrainingStep::compute(std::string_view op, const std::vector<BuilderValue>& arguments,
                               std::string_view name) {
  return builder_.scalar_op(op, arguments).makes_scalar(name);
}

std::string TrainingStep::name(TensorId tensor) const { return std::string(graph().name(tensor)); }

TrainingStep::Gradient& TrainingStep::record(TensorId tensor) {
  if (tensor.index() >= gradients_.size()) gradients_.resize(tensor.index() + 1);
  return gradients_[tensor.index()];
}

bool TrainingStep::wants_gradient(TensorId tensor) const {
  return tensor.index() < gradients_.size() && gradients_[tensor.index()].wanted;
}

TensorId TrainingStep::gradient(TensorId tensor) const {
  return wants_gradient(tensor) ? gradients_[tensor.index()].sum : TensorId();
}

void TrainingStep::differentiate(std::initializer_list<TensorId> results,
                                 std::initializer_list<TensorId> operands, Rule rule) {
  bool wanted = false;
  for (const TensorId operand : operands) {
    if (!wants_gradient(operand)) continue;
    wanted = true;
    ++record(operand).uses;
  }
  if (!wanted) return;
  for (const TensorId result : results) record(result).wanted = true;
  tape_.push_back(Entry{*results.begin(), std::move(rule)});
}

std::string TrainingStep::gradient_name(TensorId tensor) const {
  const Gradient& gradient = gradients_[tensor.index()];
  if (gradient.uses == 1) return fmt::format("gradients/{}", graph().name(tensor));
  return fmt::format("gradients/{}.part{}", graph().name(tensor), gradient.parts + 1);
}

void TrainingStep::add_gradient(TensorId tensor, TensorId gradient) {
  const std::uint32_t parts = ++record(tensor).parts;
  const bool last = parts == record(tensor).uses;
  if (const TensorId sum = record(tensor).sum; sum.valid()) {
    const std::string sum_name =
        last ? fmt::format("gradients/{}", graph().name(tensor))
             : fmt::format("gradients/{}.sum{}", graph().name(tensor), parts);
    gradient = kernel("aten::add.Tensor", {sum, gradient}).makes(sum_name, f32(dims(tensor)));
  }
  record(tensor).sum = gradient;
  const std::uint32_t weight = record(tensor).weight;
  if (last && weight != kNoWeight && update_early_) update(weight);
}

void TrainingStep::update(std::uint32_t weight) {
  Trained& trained = weights_[weight];
  trained.gradient = gradient(trained.weight);
  optimizer_->update(*this, trained);
}

Result<Graph> TrainingStep::finish(TensorId loss) {
  if (update_early_) optimizer_->compute_scalars(*this);
  record(loss).sum = kernel("aten::ones_like", {loss}).makes("gradients/" + name(loss), f32({}));
  while (!tape_.empty()) {
    const Entry entry = std::move(tape_.back());
    tape_.pop_back();
    if (const TensorId known = gradient(entry.result); known.valid()) entry.rule(known);
  }
  if (!update_early_) {
    optimizer_->compute_scalars(*this);
    for (std::uint32_t weight = 0; weight < weights_.size(); ++weight) update(weight);
  }
  if (error_) return fail(*error_);
  builder_.returns({loss});
  return builder_.build();
}

}  // namespace ebb::examples
