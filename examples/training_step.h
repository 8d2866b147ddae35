// A training step in the making: a GraphBuilder that times operations, differentiates them, and
// updates the weights at the end.
//
//   TrainingStep step("toy", sgd(), false);
//   const TensorId x = step.input("x", f32({64, 784}));
//   const Linear fc(step, "fc", 784, 10);
//   step.start();                                    // declarations end, operations begin
//   const TensorId loss = mean_square(step, fc.apply(step, x), target);
//   Result<Graph> graph = step.finish(loss);         // backward, updates, verification
//
// As with the builder, calls never fail: finish() tells of the first thing that was wrong.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/graph/builder.h"
#include "examples/cost.h"
#include "examples/optimizer.h"

namespace ebb::examples {

class TrainingStep;

// One device operation. Its time follows from the work stated, its operands and its results.
class Kernel {
 public:
  Kernel& flops(double count);  // 0 unless stated: bound by memory
  Kernel& moves(double bytes);  // for one that touches only part of its operands
  Kernel& attr(std::string_view key, const BuilderValue& value);
  Kernel& attr(std::string_view key, const Dims& values);
  Kernel& attr(std::string_view key, std::initializer_list<bool> values);
  Kernel& workspace(Bytes bytes);
  Kernel& random();

  // Results, in order.
  TensorId makes(std::string_view name, const TensorType& type);
  TensorId makes_next(TensorId updated);  // "w.1" of "w", "w.2" of "w.1"
  // Looks at the bytes of `of` in another way, from `offset` after its beginning on. An operation
  // that makes views takes no time.
  TensorId makes_view(std::string_view name, const TensorType& type, TensorId of,
                      Bytes offset = {});

 private:
  friend class TrainingStep;
  Kernel(TrainingStep& step, OpBuilder op, double operand_bytes)
      : step_(step), op_(op), bytes_(operand_bytes) {}

  void count(double bytes);

  TrainingStep& step_;
  OpBuilder op_;
  double flops_ = 0;
  double bytes_ = 0;
  double nanoseconds_ = 0;
  bool bytes_are_stated_ = false;
};

class TrainingStep {
 public:
  TrainingStep(std::string_view name, std::unique_ptr<Optimizer> optimizer, bool update_early);

  // Declarations, which stand first.
  TensorId input(std::string_view name, const TensorType& type);
  TensorId constant(std::string_view name, const TensorType& type);
  TensorId weight(std::string_view name, const Dims& dims);  // trained
  TensorId buffer(std::string_view name, const Dims& dims);  // kept from step to step, not trained
  ScalarId scalar(std::string_view name);
  void start();

  // Operations.
  Kernel kernel(std::string_view op, const std::vector<BuilderOperand>& operands);
  ScalarId compute(std::string_view op, const std::vector<BuilderValue>& arguments,
                   std::string_view name);

  // Says how gradients pass: once the gradient of the first result is known, `rule` adds to those
  // of the operands. Operands may be absent. Rules run in the reverse order of their operations,
  // and only for results that depend on a weight.
  using Rule = std::function<void(TensorId gradient)>;
  void differentiate(std::initializer_list<TensorId> results,
                     std::initializer_list<TensorId> operands, Rule rule);
  // For rules.
  [[nodiscard]] bool wants_gradient(TensorId tensor) const;
  [[nodiscard]] TensorId gradient(TensorId tensor) const;
  // What to call the gradient a rule is about to make: "gradients/x", or "gradients/x.part2" when
  // there are several to be added up.
  [[nodiscard]] std::string gradient_name(TensorId tensor) const;
  void add_gradient(TensorId tensor, TensorId gradient);

  // Of tensors made so far. Copies, because references die with the next operation.
  [[nodiscard]] std::string name(TensorId tensor) const;
  [[nodiscard]] TensorType type(TensorId tensor) const { return graph().type(tensor); }
  [[nodiscard]] Dims dims(TensorId tensor) const { return graph().type(tensor).dims; }
  [[nodiscard]] const Graph& graph() const { return builder_.graph(); }

  Result<Graph> finish(TensorId loss);

 private:
  friend class Kernel;
  static constexpr std::uint32_t kNoWeight = 0xFFFFFFFF;

  struct Gradient {  // of one tensor
    TensorId sum;    // so far
    std::uint32_t uses = 0;
    std::uint32_t parts = 0;
    std::uint32_t weight = kNoWeight;  // the place in weights_
    bool wanted = false;
  };
  struct Entry {
    TensorId result;
    Rule rule;
  };

  TensorType admitted(std::string_view name, const TensorType& type);
  TensorType refused(std::string_view name, TensorType type);
  void spend(double nanoseconds);
  void remember(std::string message);
  Gradient& record(TensorId tensor);
  void update(std::uint32_t weight);

  GraphBuilder builder_;
  std::unique_ptr<Optimizer> optimizer_;
  bool update_early_;
  std::vector<Trained> weights_;
  std::vector<Gradient> gradients_;  // by tensor; may be shorter than there are tensors
  std::vector<Entry> tape_;
  std::int64_t total_bytes_ = 0;
  double total_nanoseconds_ = 0;
  std::optional<Error> error_;
};

}  // namespace ebb::examples
