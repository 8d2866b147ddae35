#include "tests/plan/random_step.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/graph/builder.h"
#include "tests/plan/dice.h"

namespace ebb {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomStepOptions& options)
      : dice_(seed), options_(options), builder_("step") {}

  Graph run() {
    rate_ = builder_.scalar("lr");
    usual_ = dice_.pick(std::vector<std::int64_t>{250, 1000, 1000, 4096});
    batch_ = builder_.input("x", f32({elements()}));
    if (odd(3)) label_ = builder_.input("label", f32({elements()}));
    if (odd(4)) constant_ = builder_.constant("table", f32({elements()}));
    values_.push_back(batch_);
    for (int i = 0; i < options_.layers; ++i) add_layer();
    gradient_ = op("my::loss", label_.valid() ? std::vector<BuilderOperand>{values_.back(), label_}
                                              : std::vector<BuilderOperand>{values_.back()})
                    .makes(name("loss"), f32({}));
    returned_.push_back(gradient_);
    add_backward();
    for (const auto& [parameter, gradient] : pending_) add_update(parameter, gradient);
    if (odd(6)) returned_.push_back(dice_.pick(values_));
    if (odd(8)) op("my::log", {gradient_}).effect().named(name("log"));
    builder_.returns(returned_);
    auto graph = builder_.build();
    EBB_CHECK(graph.has_value(), "a random step is wrong: {}", graph.error().message);
    return std::move(*graph);
  }

 private:
  // What the backward part wants of a line of the forward part.
  struct Layer {
    std::vector<TensorId> saved;
    TensorId parameter;  // if it has one
    TensorId output;     // elementwise: where its gradient may lie in the bytes of another
  };

  // Whether to do what plain steps never do.
  bool odd(std::size_t sides) { return !options_.plain && dice_.one_in(sides); }

  const Graph& graph() { return builder_.graph(); }

  std::string name(std::string_view stem) {
    return fmt::format("{}{}{}", stem, odd(12) ? " " : "", counter_++);
  }

  std::int64_t elements() {
    static const std::vector<std::int64_t> kSizes = {1, 7, 64, 250, 1000, 1000, 4096, 4096, 20'000};
    if (odd(40)) return 0;
    return dice_.pick(kSizes);
  }

  // Of a parameter: mostly much less than activations.
  TensorType small_type() { return dice_.one_in(8) ? any_type() : f32({elements() / 64 + 1}); }

  // Of an activation: mostly as the others of this step.
  TensorType any_type() {
    TensorType type = f32({dice_.one_in(3) ? elements() : usual_});
    if (odd(8)) type.dtype = DType::kBF16;
    if (odd(15)) {
      type.dims = {4, elements()};
      type.strides =
          dice_.one_in(2) ? std::vector<std::int64_t>{1, 4} : std::vector<std::int64_t>{0, 1};
    }
    return type;
  }

  // With a time, and now and then with a workspace and a control edge.
  OpBuilder op(std::string_view op_name, const std::vector<BuilderOperand>& operands) {
    static const std::vector<std::int64_t> kTimes = {0, 1, 100, 1000, 1000, 5000, 20'000};
    const std::size_t above = graph().node_count();
    OpBuilder made = builder_.op(op_name, operands);
    made.takes(Duration(dice_.pick(kTimes) + static_cast<std::int64_t>(dice_.below(50))));
    if (dice_.one_in(6)) made.workspace(Bytes{elements()});
    if (odd(10)) {
      const NodeId other(static_cast<std::uint32_t>(dice_.below(above)));
      if (graph().is_op(other)) made.after(other);
    }
    return made;
  }

  // Mostly the last one.
  TensorId value() {
    if (!dice_.one_in(3)) return values_.back();
    const std::size_t recent = std::min<std::size_t>(values_.size(), 5);
    return values_[values_.size() - 1 - dice_.below(recent)];
  }

  // Another one of the same type, for a skip connection; or the same.
  TensorId companion(TensorId of) {
    std::vector<TensorId> same;
    for (const TensorId other : values_) {
      if (graph().type_id(other) == graph().type_id(of)) same.push_back(other);
    }
    return same.empty() ? of : dice_.pick(same);
  }

  void add_layer() {
    switch (options_.plain ? dice_.below(5) : dice_.below(12)) {
      case 0:
      case 1:
        add_elementwise();
        break;
      case 5:
        add_batch_norm();
        break;
      case 6:
        add_dropout();
        break;
      case 7:
        add_view();
        break;
      case 8:
        add_split();
        break;
      case 9:
        add_host_operation();
        break;
      case 10:
        add_repeated();
        break;
      default:
        add_product();
    }
  }

  void add_product() {
    const TensorId from = value();
    Layer layer{
        .saved = {from}, .parameter = builder_.param(name("w"), small_type()), .output = {}};
    std::vector<BuilderOperand> operands = {from, layer.parameter};
    if (constant_.valid() && odd(3)) operands.emplace_back(constant_);
    const TensorId made = op("my::mm", operands).makes(name("h"), any_type());
    if (dice_.one_in(4)) layer.saved.push_back(made);
    values_.push_back(made);
    layers_.push_back(layer);
  }

  void add_elementwise() {
    const TensorId from = value();
    const TensorType type = graph().type(from);
    const TensorId made =
        dice_.one_in(2) ? op("aten::relu", {from}).makes(name("a"), type)
                        : op("aten::add.Tensor", {from, companion(from)}).makes(name("s"), type);
    Layer layer{.saved = {}, .parameter = {}, .output = made};
    if (dice_.one_in(3)) layer.saved.push_back(from);
    values_.push_back(made);
    layers_.push_back(layer);
  }

  void add_batch_norm() {
    const TensorId from = value();
    const TensorType type = graph().type(from);
    const TensorId weight = builder_.param(name("w"), f32({16}));
    const TensorId mean = builder_.param(name("mean"), f32({16}));
    OpBuilder norm = op("my::batch_norm", {from, weight, update(mean)});
    values_.push_back(norm.makes(name("n"), type));
    Layer layer{.saved = {from}, .parameter = weight, .output = {}};
    if (odd(2)) layer.saved.push_back(norm.makes(name("stats"), f32({16})));
    returned_.push_back(norm.makes_next(name("mean"), mean));
    layers_.push_back(layer);
  }

  void add_dropout() {
    const TensorId from = value();
    const TensorType type = graph().type(from);
    TensorType mask = type;
    mask.dtype = DType::kBool;
    OpBuilder dropout = op("my::dropout", {from});
    dropout.random();
    values_.push_back(dropout.makes(name("d"), type));
    layers_.push_back(
        {.saved = {dropout.makes(name("mask"), mask)}, .parameter = {}, .output = {}});
  }

  void add_view() {
    const TensorId from = value();
    const auto bytes = graph().size(graph().storage(from)).value_or(Bytes{}).count;
    const auto half = static_cast<std::int64_t>(dice_.below(2)) * (bytes / 8) * 4;
    const TensorId seen = builder_.op("aten::view", {from})
                              .makes_view(name("v"), f32({(bytes - half) / 4}), from, Bytes{half});
    values_.push_back(seen);
    if (dice_.one_in(2)) layers_.push_back({.saved = {seen}, .parameter = {}, .output = {}});
  }

  // Makes a view beside something else, so that it does touch the bytes.
  void add_split() {
    const TensorId from = value();
    const TensorType type = graph().type(from);
    const Bytes offset = graph().offset(from);
    OpBuilder split = op("my::split", {from});
    const TensorId seen = split.makes_view(name("v"), type, from, offset);
    const TensorId made = split.makes(name("t"), any_type());
    if (dice_.one_in(2)) split.makes(name("unread"), any_type());
    values_.push_back(seen);
    values_.push_back(made);
    layers_.push_back({.saved = {made, seen}, .parameter = {}, .output = {}});
  }

  void add_host_operation() {
    if (!dice_.one_in(3)) {
      add_product();
      return;
    }
    const TensorId counted =
        op("my::count", {value()}).makes(name("host"), on_host(f32({elements()})));
    if (dice_.one_in(2)) returned_.push_back(counted);
    if (dice_.one_in(2)) values_.push_back(op("my::fill", {counted}).makes(name("h"), any_type()));
  }

  // An intermediate value that is updated in place.
  void add_repeated() {
    const TensorId made = op("my::fill", {value()}).makes(name("h"), any_type());
    if (dice_.one_in(2)) layers_.push_back({.saved = {made}, .parameter = {}, .output = {}});
    if (dice_.one_in(2)) {
      values_.push_back(made);
      return;
    }
    // Whoever wants the old version wants the new one now.
    const TensorId next =
        op("my::add_", {update(made), values_.back()}).makes_next(name("h"), made);
    if (!layers_.empty() && !layers_.back().saved.empty() && layers_.back().saved[0] == made) {
      layers_.back().saved = {next};
    }
    values_.push_back(next);
  }

  void add_backward() {
    std::vector<Layer> left = layers_;
    while (!left.empty()) {
      // Roughly the last first.
      const std::size_t back =
          dice_.one_in(5) ? dice_.below(std::min<std::size_t>(left.size(), 3)) : 0;
      const auto next = left.end() - 1 - static_cast<std::ptrdiff_t>(back);
      add_gradient(*next);
      left.erase(next);
    }
  }

  void add_gradient(const Layer& layer) {
    std::vector<BuilderOperand> operands = {gradient_};
    for (const TensorId saved : layer.saved) operands.emplace_back(saved);
    const bool is_elementwise = layer.output.valid();
    if (is_elementwise && graph().type_id(layer.output) == graph().type_id(gradient_)) {
      const TensorType type = graph().type(gradient_);
      gradient_ = op("aten::threshold_backward", {gradient_, layer.output}).makes(name("g"), type);
      return;
    }
    if (is_elementwise) operands.emplace_back(layer.output);
    if (layer.parameter.valid()) {
      const TensorType type = graph().type(layer.parameter);
      std::vector<BuilderOperand> weights = operands;
      if (dice_.one_in(2)) weights.emplace_back(layer.parameter);
      const TensorId made = op("my::grad_w", weights).makes(name("gw"), type);
      if (dice_.one_in(3)) {
        add_update(layer.parameter, made);
      } else {
        pending_.emplace_back(layer.parameter, made);
      }
    }
    // As large as what it is the gradient of.
    const TensorType type =
        layer.saved.empty() ? any_type() : TensorType(graph().type(layer.saved[0]));
    const TensorId before = gradient_;
    gradient_ = op("my::grad", operands).makes(name("g"), type);
    if (graph().type_id(before) == graph().type_id(gradient_) && dice_.one_in(3)) {
      gradient_ = op("aten::add.Tensor", {gradient_, before}).makes(name("g"), type);
    }
  }

  void add_update(TensorId parameter, TensorId gradient) {
    const TensorType type = graph().type(gradient);
    if (odd(5)) {
      OpBuilder scaled = op("aten::_foreach_mul.Scalar", {list_of({gradient, gradient_})});
      const TensorType other = graph().type(gradient_);
      gradient = scaled.makes(name("gw"), type);
      gradient_ = scaled.makes(name("g"), other);
    }
    OpBuilder add = op("aten::add_.Tensor", {update(parameter), gradient});
    add.attr("alpha", rate_);
    returned_.push_back(add.makes_next(name("w"), parameter));
  }

  Dice dice_;
  RandomStepOptions options_;
  GraphBuilder builder_;
  int counter_ = 0;
  ScalarId rate_;
  std::int64_t usual_ = 0;  // elements of most activations
  TensorId batch_;
  TensorId label_;
  TensorId constant_;
  std::vector<TensorId> values_;  // of the forward part
  std::vector<Layer> layers_;
  TensorId gradient_;                                   // the last
  std::vector<std::pair<TensorId, TensorId>> pending_;  // parameters and their gradients
  std::vector<TensorId> returned_;
};

}  // namespace

Graph random_step(std::uint64_t seed, const RandomStepOptions& options) {
  return Generator(seed, options).run();
}

Device random_device(std::uint64_t seed) {
  Dice dice(seed);
  Device device;
  device.name = "random";
  device.memory = Bytes{std::int64_t{1} << 30};
  device.flops = {.f32 = 1e13,
                  .f32_matmul = 1e13,
                  .f32_convolution = 1e13,
                  .f64 = 1e12,
                  .f16 = 1e14,
                  .bf16 = 1e14,
                  .int8 = 1e14};
  device.memory_bandwidth = {1e12};
  device.launch = Duration{static_cast<std::int64_t>(dice.below(2) * 100)};
  device.alignment = Bytes{dice.pick(std::vector<std::int64_t>{1, 4, 64, 512})};
  // Bytes a second. 4000 values take 1.6 to 1600 us, operations 5 us.
  const std::vector<double> speeds = {1e7, 1e8, 1e9, 3e9, 1e10};
  Link& link = device.link;
  link.to_host = {dice.pick(speeds)};
  link.to_device = dice.one_in(2) ? link.to_host : Bandwidth{dice.pick(speeds)};
  const double share = dice.one_in(2) ? 1 : 0.6;
  link.to_host_both = {link.to_host.bytes_per_second * share};
  link.to_device_both = {link.to_device.bytes_per_second * share};
  if (dice.one_in(2)) link.latency = Duration{static_cast<std::int64_t>(dice.below(3000))};
  if (dice.one_in(2)) link.shortest = Duration{static_cast<std::int64_t>(dice.below(3000))};
  return device;
}

}  // namespace ebb
