#include <array>

#include <fmt/format.h>

#include "examples/limits.h"
#include "examples/models.h"
#include "examples/token_layers.h"
#include "examples/views.h"

namespace ebb::examples {
namespace {

// Attention and a small perceptron, each around a shortcut and after a layer norm. The names of the
// parts are GPT-2's.
class Block {
 public:
  Block(TrainingStep& step, const std::string& name, const TransformerOptions& options)
      : name_(name),
        norm1_(step, name + ".ln_1", options.width, options.bias),
        qkv_(step, name + ".attn.c_attn", options.width, times(3, options.width), options.bias),
        project_(step, name + ".attn.c_proj", options.width, options.width, options.bias),
        norm2_(step, name + ".ln_2", options.width, options.bias),
        widen_(step, name + ".mlp.c_fc", options.width, times(4, options.width), options.bias),
        narrow_(step, name + ".mlp.c_proj", times(4, options.width), options.width, options.bias) {}

  TensorId apply(TrainingStep& step, TensorId x, TensorId mask, const AttentionShape& shape) const {
    TensorId y = qkv_.apply(step, norm1_.apply(step, x));
    y = project_.apply(step, attention(step, name_ + ".attn", y, mask, shape));
    y = dropout(step, name_ + ".attn.resid_dropout", y, shape.dropout);
    x = add(step, name_ + ".add_1", x, y);
    y = gelu(step, name_ + ".mlp.gelu", widen_.apply(step, norm2_.apply(step, x)));
    y = dropout(step, name_ + ".mlp.dropout", narrow_.apply(step, y), shape.dropout);
    return add(step, name_ + ".add_2", x, y);
  }

 private:
  std::string name_;
  LayerNorm norm1_;
  Linear qkv_;
  Linear project_;
  LayerNorm norm2_;
  Linear widen_;
  Linear narrow_;
};

Status check(const TransformerOptions& options) {
  if (auto status = check_range({{"layers", options.layers, kMostLayers},
                                 {"width", options.width},
                                 {"heads", options.heads},
                                 {"sequence", options.sequence},
                                 {"vocabulary", options.vocabulary},
                                 {"batch", options.batch}});
      !status) {
    return status;
  }
  if (options.width % options.heads != 0) {
    return fail(ErrorKind::kUsage, fmt::format("width is {}, and must be a multiple of heads, {}",
                                               options.width, options.heads));
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return fail(ErrorKind::kUsage,
                fmt::format("dropout is {}, and must be from 0 to below 1", options.dropout));
  }
  return {};
}

}  // namespace

Result<Graph> transformer(const TransformerOptions& options) {
  if (auto status = check(options); !status) return fail(std::move(status.error()));
  const auto [batch, sequence, width] = std::array{options.batch, options.sequence, options.width};
  const AttentionShape shape{.batch = batch,
                             .sequence = sequence,
                             .heads = options.heads,
                             .width = width,
                             .dropout = options.dropout};

  TrainingStep step("transformer", adam(), options.update_early);
  const TensorId tokens = step.input("tokens", tensor_type(DType::kI64, {batch, sequence}));
  const TensorId targets = step.input("targets", tensor_type(DType::kI64, {batch, sequence}));
  const TensorId positions = step.constant("positions", tensor_type(DType::kI64, {sequence}));
  const TensorId mask =
      step.constant("causal_mask", tensor_type(DType::kBool, {sequence, sequence}));
  const TensorId words = step.weight("wte.weight", {options.vocabulary, width});
  const TensorId places = step.weight("wpe.weight", {sequence, width});
  std::vector<Block> blocks;
  blocks.reserve(static_cast<std::size_t>(options.layers));
  for (std::int64_t i = 0; i < options.layers; ++i) {
    blocks.emplace_back(step, fmt::format("h.{}", i), options);
  }
  const LayerNorm last_norm(step, "ln_f", width, options.bias);
  step.start();

  const TensorId word = embedding(step, "wte", words, tokens);
  const TensorId place = embedding(step, "wpe", places, positions);
  TensorId x = add_positions(step, "add", word, place);
  const Dims rows = {times(batch, sequence), width};
  x = reshape(step, "rows", dropout(step, "drop", x, options.dropout), rows);
  for (const Block& block : blocks) x = block.apply(step, x, mask, shape);
  // The output layer shares the weights of the word embedding.
  x = linear(step, "lm_head", last_norm.apply(step, x), words);
  return step.finish(cross_entropy(step, x, viewed(step, "targets.rows", targets, {rows[0]})));
}

}  // namespace ebb::examples
