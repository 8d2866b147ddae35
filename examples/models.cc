#include "examples/models.h"

#include <algorithm>
#include <cmath>

namespace ebb::examples {
namespace {

// How many layers make `nodes` nodes, when `nodes_with(layers)` grows linearly. Two small graphs
// tell how fast: a formula would have to be kept in step with the models.
template <class NodesWith>
std::int64_t layers_for(std::size_t nodes, std::int64_t few, const NodesWith& nodes_with) {
  const double at_few = nodes_with(few);
  const double per_layer = (nodes_with(2 * few) - at_few) / static_cast<double>(few);
  if (per_layer <= 0) return few;  // the options are wrong: the model says how
  const double more = (static_cast<double>(nodes) - at_few) / per_layer;
  return std::max<std::int64_t>(1, few + std::llround(std::min(more, 1e15)));
}

double node_count(const Result<Graph>& graph) {
  return graph ? static_cast<double>(graph->node_count()) : 0;
}

std::vector<std::int64_t> spread(std::int64_t blocks, std::size_t stages) {
  const auto count = static_cast<std::int64_t>(stages);
  std::vector<std::int64_t> result(stages, blocks / count);
  for (std::size_t i = 0; i < stages; ++i) {
    if (static_cast<std::int64_t>(i) < blocks % count) ++result[i];
    result[i] = std::max<std::int64_t>(1, result[i]);
  }
  return result;
}

}  // namespace

MlpOptions mlp_of_size(std::size_t nodes, MlpOptions base) {
  base.layers = layers_for(nodes, 2, [&](std::int64_t layers) {
    base.layers = layers;
    return node_count(mlp(base));
  });
  return base;
}

ResnetOptions resnet_of_size(std::size_t nodes, ResnetOptions base) {
  const std::size_t stages = base.blocks.size();
  if (stages == 0) return base;
  const std::int64_t blocks =
      layers_for(nodes, static_cast<std::int64_t>(stages), [&](std::int64_t total) {
        base.blocks = spread(total, stages);
        return node_count(resnet(base));
      });
  base.blocks = spread(blocks, stages);
  return base;
}

TransformerOptions transformer_of_size(std::size_t nodes, TransformerOptions base) {
  base.layers = layers_for(nodes, 1, [&](std::int64_t layers) {
    base.layers = layers;
    return node_count(transformer(base));
  });
  return base;
}

}  // namespace ebb::examples
