// Optimizers as PyTorch runs them, weight by weight, on the weights and their state in place.
#pragma once

#include <array>
#include <memory>

#include "ebb/graph/graph.h"

namespace ebb::examples {

class TrainingStep;

// A weight, what the optimizer keeps for it from step to step, and this step's gradient.
struct Trained {
  TensorId weight;
  std::array<TensorId, 2> state;
  TensorId gradient;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Before all operations: the scalars, then the state of each weight.
  virtual void declare_scalars(TrainingStep& step) = 0;
  virtual void declare_state(TrainingStep& step, Trained& trained) = 0;
  // Before the first update: host arithmetic that all updates share.
  virtual void compute_scalars(TrainingStep& step) = 0;
  virtual void update(TrainingStep& step, const Trained& trained) = 0;
};

// w -= lr * g
std::unique_ptr<Optimizer> sgd();
// m = 0.9 * m + g;  w -= lr * m
std::unique_ptr<Optimizer> momentum_sgd();
// m and v follow g and g^2;  w -= lr / (1 - 0.9^t) * m / (sqrt(v / (1 - 0.999^t)) + 1e-8)
std::unique_ptr<Optimizer> adam();

}  // namespace ebb::examples
