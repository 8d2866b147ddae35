#include "examples/optimizer.h"

#include "examples/training_step.h"

namespace ebb::examples {
namespace {

constexpr double kMomentum = 0.9;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;

class Sgd : public Optimizer {
 public:
  void declare_scalars(TrainingStep& step) override { rate_ = step.scalar("lr"); }
  void declare_state(TrainingStep& /*step*/, Trained& /*trained*/) override {}
  void compute_scalars(TrainingStep& step) override {
    minus_rate_ = step.compute("scalar::neg", {rate_}, "neg_lr");
  }
  void update(TrainingStep& step, const Trained& trained) override {
    descend(step, trained.weight, trained.gradient);
  }

 protected:
  void descend(TrainingStep& step, TensorId weight, TensorId direction) const {
    step.kernel("aten::add_.Tensor", {ebb::update(weight), direction})
        .attr("alpha", minus_rate_)
        .makes_next(weight);
  }

 private:
  ScalarId rate_;
  ScalarId minus_rate_;
};

class MomentumSgd : public Sgd {
 public:
  void declare_state(TrainingStep& step, Trained& trained) override {
    trained.state[0] =
        step.buffer(step.name(trained.weight) + ".momentum", step.dims(trained.weight));
  }
  void update(TrainingStep& step, const Trained& trained) override {
    const TensorId old = trained.state[0];
    const TensorId decayed = step.kernel("aten::mul_.Scalar", {ebb::update(old)})
                                 .attr("other", kMomentum)
                                 .makes_next(old);
    const TensorId momentum =
        step.kernel("aten::add_.Tensor", {ebb::update(decayed), trained.gradient})
            .makes_next(decayed);
    descend(step, trained.weight, momentum);
  }
};

class Adam : public Optimizer {
 public:
  void declare_scalars(TrainingStep& step) override {
    rate_ = step.scalar("lr");
    time_ = step.scalar("step");
  }

  void declare_state(TrainingStep& step, Trained& trained) override {
    const std::string name = step.name(trained.weight);
    trained.state[0] = step.buffer(name + ".exp_avg", step.dims(trained.weight));
    trained.state[1] = step.buffer(name + ".exp_avg_sq", step.dims(trained.weight));
  }

  void compute_scalars(TrainingStep& step) override {
    const ScalarId power1 = step.compute("scalar::pow", {kBeta1, time_}, "beta1_power");
    const ScalarId correction1 = step.compute("scalar::sub", {1.0, power1}, "bias_correction1");
    const ScalarId size = step.compute("scalar::truediv", {rate_, correction1}, "step_size");
    minus_size_ = step.compute("scalar::neg", {size}, "neg_step_size");
    const ScalarId power2 = step.compute("scalar::pow", {kBeta2, time_}, "beta2_power");
    const ScalarId correction2 = step.compute("scalar::sub", {1.0, power2}, "bias_correction2");
    root_ = step.compute("scalar::sqrt", {correction2}, "bias_correction2_sqrt");
  }

  void update(TrainingStep& step, const Trained& trained) override {
    const auto [mean, square] = trained.state;
    const TensorId g = trained.gradient;
    const TensorType type = step.type(trained.weight);
    const std::string name = step.name(trained.weight);
    const TensorId mean1 = step.kernel("aten::lerp_.Scalar", {ebb::update(mean), g})
                               .attr("weight", 1 - kBeta1)
                               .makes_next(mean);
    const TensorId square1 = step.kernel("aten::mul_.Scalar", {ebb::update(square)})
                                 .attr("other", kBeta2)
                                 .makes_next(square);
    const TensorId square2 = step.kernel("aten::addcmul_", {ebb::update(square1), g, g})
                                 .attr("value", 1 - kBeta2)
                                 .makes_next(square1);
    const TensorId root = step.kernel("aten::sqrt", {square2}).makes(name + ".sqrt", type);
    const TensorId unbiased =
        step.kernel("aten::div.Scalar", {root}).attr("other", root_).makes(name + ".div", type);
    const TensorId denominator = step.kernel("aten::add.Scalar", {unbiased})
                                     .attr("other", kEpsilon)
                                     .makes(name + ".denom", type);
    step.kernel("aten::addcdiv_", {ebb::update(trained.weight), mean1, denominator})
        .attr("value", minus_size_)
        .makes_next(trained.weight);
  }

 private:
  ScalarId rate_;
  ScalarId time_;
  ScalarId minus_size_;
  ScalarId root_;
};

}  // namespace

std::unique_ptr<Optimizer> sgd() { return std::make_unique<Sgd>(); }
std::unique_ptr<Optimizer> momentum_sgd() { return std::make_unique<MomentumSgd>(); }
std::unique_ptr<Optimizer> adam() { return std::make_unique<Adam>(); }

}  // namespace ebb::examples
