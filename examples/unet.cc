#include <fmt/format.h>

#include "examples/layers.h"
#include "examples/limits.h"
#include "examples/models.h"

namespace ebb::examples {
namespace {

// Convolutions in a row, each followed by batch norm, if wanted, and ReLU.
class Level {
 public:
  Level(TrainingStep& step, std::string name, std::int64_t in, std::int64_t out,
        const UnetOptions& options)
      : name_(std::move(name)) {
    for (std::int64_t i = 1; i <= options.convolutions; ++i) {
      convolutions_.emplace_back(
          step, fmt::format("{}.conv{}", name_, i),
          Convolution::Shape{.in = i == 1 ? in : out,
                             .out = out,
                             .bias = !options.batch_norm,
                             .space = static_cast<std::size_t>(options.dimensions)});
      if (options.batch_norm) norms_.emplace_back(step, fmt::format("{}.bn{}", name_, i), out);
    }
  }

  TensorId apply(TrainingStep& step, TensorId x) const {
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      x = convolutions_[i].apply(step, x);
      if (!norms_.empty()) x = norms_[i].apply(step, x);
      x = relu(step, fmt::format("{}.relu{}", name_, i + 1), x);
    }
    return x;
  }

 private:
  std::string name_;
  std::vector<Convolution> convolutions_;
  std::vector<BatchNorm> norms_;
};

Status check(const UnetOptions& options) {
  if (auto status = check_range({{"depth", options.depth, 40},
                                 {"convolutions", options.convolutions, kMostLayers / 100},
                                 {"channels", options.channels},
                                 {"size", options.size},
                                 {"inputs", options.inputs},
                                 {"classes", options.classes},
                                 {"batch", options.batch}});
      !status) {
    return status;
  }
  if (options.dimensions != 2 && options.dimensions != 3) {
    return fail(ErrorKind::kUsage,
                fmt::format("dimensions is {}, and must be 2 or 3", options.dimensions));
  }
  const std::int64_t factor = std::int64_t{1} << options.depth;
  if (options.size % factor != 0) {
    return fail(ErrorKind::kUsage,
                fmt::format("size is {}, and must be a multiple of {} to be halved {} times",
                            options.size, factor, options.depth));
  }
  return {};
}

TensorType image_type(DType dtype, Dims dims, const UnetOptions& options) {
  dims.insert(dims.end(), static_cast<std::size_t>(options.dimensions), options.size);
  return tensor_type(dtype, std::move(dims));
}

}  // namespace

Result<Graph> unet(const UnetOptions& options) {
  if (auto status = check(options); !status) return fail(std::move(status.error()));
  const auto space = static_cast<std::size_t>(options.dimensions);
  const auto depth = static_cast<std::size_t>(options.depth);

  TrainingStep step("unet", adam(), options.update_early);
  const TensorId image =
      step.input("x", image_type(DType::kF32, {options.batch, options.inputs}, options));
  const TensorId target = step.input("target", image_type(DType::kI64, {options.batch}, options));
  std::vector<Level> encoder;
  std::int64_t in = options.inputs;
  std::int64_t out = options.channels;
  for (std::size_t i = 1; i <= depth; ++i) {
    encoder.emplace_back(step, fmt::format("enc{}", i), in, out, options);
    in = out;
    out = times(2, out);
  }
  const Level bottom(step, "mid", in, out, options);
  std::vector<Convolution> ups;  // these two from the bottom up
  std::vector<Level> decoder;
  for (std::size_t i = depth; i >= 1; --i) {
    ups.emplace_back(step, fmt::format("up{}", i),
                     Convolution::Shape{.in = out,
                                        .out = out / 2,
                                        .kernel = 2,
                                        .stride = 2,
                                        .transposed = true,
                                        .bias = true,
                                        .space = space});
    decoder.emplace_back(step, fmt::format("dec{}", i), out, out / 2, options);
    out /= 2;
  }
  const Convolution head(
      step, "head", {.in = out, .out = options.classes, .kernel = 1, .bias = true, .space = space});
  step.start();

  TensorId at = image;
  std::vector<TensorId> skips;
  for (std::size_t i = 0; i < depth; ++i) {
    skips.push_back(encoder[i].apply(step, at));
    at = max_pool(step, fmt::format("pool{}", i + 1), skips.back(), {});
  }
  at = bottom.apply(step, at);
  for (std::size_t i = 0; i < depth; ++i) {
    at = ups[i].apply(step, at);
    at = concatenate(step, fmt::format("cat{}", depth - i), skips[depth - 1 - i], at);
    at = decoder[i].apply(step, at);
  }
  return step.finish(cross_entropy(step, head.apply(step, at), target));
}

}  // namespace ebb::examples
