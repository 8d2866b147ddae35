// The layers of the example networks. One that has weights is a struct, constructed while the step
// is declared and applied after start(); the others are functions. Each emits the ATen operations
// of its forward pass, named after itself, and says how gradients pass back through it.
#pragma once

#include <string>

#include "examples/training_step.h"

namespace ebb::examples {

// Dense layers (dense_layers.cc).

struct Linear {
  Linear(TrainingStep& step, std::string layer_name, std::int64_t in, std::int64_t out,
         bool with_bias = true);
  TensorId apply(TrainingStep& step, TensorId x) const;

  std::string name;
  TensorId weight;  // [out, in]
  TensorId bias;    // may be absent
};
// x [rows, in] times the transpose of weight [out, in]; for weights that are not the layer's own.
TensorId linear(TrainingStep& step, const std::string& name, TensorId x, TensorId weight,
                TensorId bias = {});

TensorId relu(TrainingStep& step, const std::string& name, TensorId x);
TensorId gelu(TrainingStep& step, const std::string& name, TensorId x);
TensorId add(TrainingStep& step, const std::string& name, TensorId a, TensorId b);
// Keeps its mask for the backward pass; with a probability of 0 it is `x` itself.
TensorId dropout(TrainingStep& step, const std::string& name, TensorId x, double probability);

// Image layers, for 2 or 3 dimensions of space (image_layers.cc). Tensors are [batch, channels,
// space...]; all sides of a kernel are alike.

struct Convolution {
  struct Shape {
    std::int64_t in = 1;
    std::int64_t out = 1;
    std::int64_t kernel = 3;
    std::int64_t stride = 1;
    bool transposed = false;  // makes the image larger by `stride`; otherwise padded to keep it
    bool bias = false;
    std::size_t space = 2;
  };
  Convolution(TrainingStep& step, std::string layer_name, const Shape& layer_shape);
  TensorId apply(TrainingStep& step, TensorId x) const;

  std::string name;
  Shape shape;
  TensorId weight;
  TensorId bias;  // may be absent
};

// Updates its running mean and variance in the forward pass.
struct BatchNorm {
  BatchNorm(TrainingStep& step, std::string layer_name, std::int64_t channels);
  TensorId apply(TrainingStep& step, TensorId x) const;

  std::string name;
  TensorId weight;
  TensorId bias;
  TensorId mean;
  TensorId variance;
};

struct Pooling {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
};
TensorId max_pool(TrainingStep& step, const std::string& name, TensorId x, const Pooling& pooling);
// [batch, channels, space...] to [batch, channels].
TensorId global_average(TrainingStep& step, const std::string& name, TensorId x);
// Joins the channels; gradients of `a` and `b` are views of the joint gradient.
TensorId concatenate(TrainingStep& step, const std::string& name, TensorId a, TensorId b);

// Losses (losses.cc): a scalar called "loss".

// Of logits [rows, classes] or [rows, classes, space...] against class numbers.
TensorId cross_entropy(TrainingStep& step, TensorId logits, TensorId target);
TensorId mean_square(TrainingStep& step, TensorId prediction, TensorId target);

}  // namespace ebb::examples
