// The layers of the transformer. Tokens of all sequences are rows of one matrix, [batch * sequence,
// width]; inside attention they are [batch * heads, sequence, width / heads].
#pragma once

#include <string>

#include "examples/layers.h"

namespace ebb::examples {

// Rows of `table`, one for each index; indices may have any shape.
TensorId embedding(TrainingStep& step, const std::string& name, TensorId table, TensorId indices);
// Embeddings of tokens plus those of positions: [batch, sequence, width] plus [sequence, width].
TensorId add_positions(TrainingStep& step, const std::string& name, TensorId tokens,
                       TensorId positions);

struct LayerNorm {
  LayerNorm(TrainingStep& step, std::string layer_name, std::int64_t width, bool with_bias);
  TensorId apply(TrainingStep& step, TensorId x) const;

  std::string name;
  TensorId weight;
  TensorId bias;  // may be absent
};

// Other dimensions for the same elements, with a copy where a view is not possible.
TensorId reshape(TrainingStep& step, const std::string& name, TensorId x, const Dims& dims);

struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  std::int64_t heads = 1;
  std::int64_t width = 1;
  double dropout = 0;
};
// Causal self-attention of queries, keys and values, the three thirds of the columns of `qkv`.
// `mask` [sequence, sequence] is true where a token must not look.
TensorId attention(TrainingStep& step, const std::string& name, TensorId qkv, TensorId mask,
                   const AttentionShape& shape);

}  // namespace ebb::examples
