#include <fmt/format.h>

#include "examples/layers.h"
#include "examples/limits.h"
#include "examples/models.h"

namespace ebb::examples {
namespace {

// A bottleneck's output has this many times the channels of its inside.
constexpr std::int64_t kExpansion = 4;

struct ConvolutionNorm {
  ConvolutionNorm(TrainingStep& step, const std::string& convolution_name,
                  const std::string& norm_name, const Convolution::Shape& shape)
      : convolution(step, convolution_name, shape), norm(step, norm_name, shape.out) {}
  TensorId apply(TrainingStep& step, TensorId x) const {
    return norm.apply(step, convolution.apply(step, x));
  }

  Convolution convolution;
  BatchNorm norm;
};

// 1x1, 3x3, 1x1, around them a shortcut: the identity, or a 1x1 convolution where shapes change.
class Bottleneck {
 public:
  Bottleneck(TrainingStep& step, const std::string& name, std::int64_t in, std::int64_t inside,
             std::int64_t stride)
      : name_(name),
        reduce_(step, name + ".conv1", name + ".bn1", {.in = in, .out = inside, .kernel = 1}),
        filter_(step, name + ".conv2", name + ".bn2",
                {.in = inside, .out = inside, .stride = stride}),
        restore_(step, name + ".conv3", name + ".bn3",
                 {.in = inside, .out = times(kExpansion, inside), .kernel = 1}) {
    if (stride == 1 && in == times(kExpansion, inside)) return;
    shortcut_.emplace(
        step, name + ".downsample.0", name + ".downsample.1",
        Convolution::Shape{
            .in = in, .out = times(kExpansion, inside), .kernel = 1, .stride = stride});
  }

  TensorId apply(TrainingStep& step, TensorId x) const {
    TensorId y = relu(step, name_ + ".relu1", reduce_.apply(step, x));
    y = relu(step, name_ + ".relu2", filter_.apply(step, y));
    y = restore_.apply(step, y);
    const TensorId identity = shortcut_ ? shortcut_->apply(step, x) : x;
    return relu(step, name_ + ".relu3", add(step, name_ + ".add", y, identity));
  }

 private:
  std::string name_;
  ConvolutionNorm reduce_;
  ConvolutionNorm filter_;
  ConvolutionNorm restore_;
  std::optional<ConvolutionNorm> shortcut_;
};

Status check_blocks(const std::vector<std::int64_t>& blocks) {
  if (blocks.empty()) return fail(ErrorKind::kUsage, "blocks is empty; name at least one stage");
  std::int64_t left = kMostLayers;
  for (const std::int64_t count : blocks) {
    if (auto status = check_range({{"blocks", count, kMostLayers}}); !status) return status;
    left -= count;
    if (left >= 0) continue;
    return fail(ErrorKind::kUsage,
                fmt::format("blocks add up to more than {}, the most there can be", kMostLayers));
  }
  return {};
}

}  // namespace

Result<Graph> resnet(const ResnetOptions& options) {
  if (auto status = check_range({{"channels", options.channels},
                                 {"image", options.image},
                                 {"classes", options.classes},
                                 {"batch", options.batch}});
      !status) {
    return fail(std::move(status.error()));
  }
  if (auto status = check_blocks(options.blocks); !status) return fail(std::move(status.error()));

  TrainingStep step("resnet", momentum_sgd(), options.update_early);
  const TensorId image = step.input("x", f32({options.batch, 3, options.image, options.image}));
  const TensorId target = step.input("target", tensor_type(DType::kI64, {options.batch}));
  const ConvolutionNorm stem(step, "conv1", "bn1",
                             {.in = 3, .out = options.channels, .kernel = 7, .stride = 2});
  std::vector<Bottleneck> blocks;
  std::int64_t channels = options.channels;
  std::int64_t inside = options.channels;
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage) {
    for (std::int64_t i = 0; i < options.blocks[stage]; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      blocks.emplace_back(step, fmt::format("layer{}.{}", stage + 1, i), channels, inside, stride);
      channels = times(kExpansion, inside);
    }
    inside = times(2, inside);
  }
  const Linear classifier(step, "fc", channels, options.classes);
  step.start();

  TensorId at = relu(step, "relu", stem.apply(step, image));
  at = max_pool(step, "maxpool", at, {.kernel = 3, .stride = 2, .padding = 1});
  for (const Bottleneck& block : blocks) at = block.apply(step, at);
  at = classifier.apply(step, global_average(step, "avgpool", at));
  return step.finish(cross_entropy(step, at, target));
}

}  // namespace ebb::examples
