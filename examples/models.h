// Training steps of well-known architectures as graphs: forward pass, loss, backward pass,
// optimizer update, line by line as a framework runs them. Tests, benchmarks and documentation use
// them.
//
//   Result<Graph> graph = examples::resnet({.blocks = {3, 4, 6, 3}, .batch = 128});
//
// Shapes, strides, operators and order are those of PyTorch; attributes that have their usual value
// are left out. Times are estimates (cost.h), not measurements. A function costs time linear in the
// graph it makes. It fails when an option is out of range (kUsage) or the sizes do not fit in 63
// bits (kBadInput).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"

namespace ebb::examples {

enum class Loss : std::uint8_t { kCrossEntropy, kMeanSquare };

// A multi-layer perceptron with ReLU, trained by plain SGD.
struct MlpOptions {
  std::int64_t layers = 3;    // linear layers, the last one included
  std::int64_t width = 4096;  // of the hidden layers
  std::int64_t inputs = 784;
  std::int64_t outputs = 10;
  std::int64_t batch = 512;
  Loss loss = Loss::kCrossEntropy;
  bool update_early = false;  // each weight right after its gradient, not all after backward
};
[[nodiscard]] Result<Graph> mlp(const MlpOptions& options = {});

// A residual network of bottleneck blocks with batch norm, trained by SGD with momentum. The
// defaults are ResNet-50.
struct ResnetOptions {
  std::vector<std::int64_t> blocks = {3, 4, 6, 3};  // by stage; each stage halves the image
  std::int64_t channels = 64;                       // of the first stage; doubled by each stage
  std::int64_t image = 224;
  std::int64_t classes = 1000;
  std::int64_t batch = 32;
  bool update_early = false;
};
[[nodiscard]] Result<Graph> resnet(const ResnetOptions& options = {});

// An encoder and a decoder joined by long skip connections, for segmentation, trained by Adam.
struct UnetOptions {
  std::int64_t dimensions = 2;    // 2: images; 3: volumes
  std::int64_t depth = 4;         // how often the size is halved
  std::int64_t convolutions = 2;  // in a row, at each level of each side
  std::int64_t channels = 64;     // of the first level; doubled by each level
  std::int64_t size = 256;        // of each side of the image
  std::int64_t inputs = 3;        // channels of the image
  std::int64_t classes = 2;
  std::int64_t batch = 8;
  bool batch_norm = true;
  bool update_early = false;
};
[[nodiscard]] Result<Graph> unet(const UnetOptions& options = {});

// A decoder-only transformer with tied embeddings and dropout, trained by Adam. The defaults are
// GPT-2 small.
struct TransformerOptions {
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t sequence = 1024;
  std::int64_t vocabulary = 50257;
  std::int64_t batch = 4;
  double dropout = 0.1;  // 0: no dropout
  bool bias = true;      // in linear layers and layer norms
  bool update_early = false;
};
[[nodiscard]] Result<Graph> transformer(const TransformerOptions& options = {});

// `base`, as deep as makes a graph of about `nodes` nodes, declarations included: within 5 % once
// that is many times a layer (some 50 to 200 nodes). Stages of the residual network are of about
// equal length. Wrong options are left for the model to refuse.
MlpOptions mlp_of_size(std::size_t nodes, MlpOptions base = {});
ResnetOptions resnet_of_size(std::size_t nodes, ResnetOptions base = {.image = 32});
TransformerOptions transformer_of_size(std::size_t nodes, TransformerOptions base = {});

}  // namespace ebb::examples
