#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tests/kernels/kernel_testing.h"

namespace parapet::kernel_testing {
namespace {

const OptimizerKind kAllOptimizers[] = {
    OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov,
    OptimizerKind::kAdam, OptimizerKind::kAdamW};

// The state of one parameter, in float32 or float64.
template <class T>
struct Parameter {
  T w = 0, m = 0, v = 0;
};

// PyTorch's formulas, a parameter at a time. In float32 the order of operations
// is that of kernels/cpu/optimizer.h, so the bits must agree; in float64 it is
// the reference for accuracy.
template <class T>
void ReferenceStep(const OptimizerConfig& c, const StepFacts& facts, T g,
                   Parameter<T>& p) {
  const auto lr = static_cast<T>(facts.lr),
             momentum = static_cast<T>(c.momentum);
  g *= static_cast<T>(facts.gradient_scale);
  const bool adamw = c.kind == OptimizerKind::kAdamW;
  if (adamw) p.w *= static_cast<T>(1 - facts.lr * c.weight_decay);
  if (!adamw && c.weight_decay != 0) g += static_cast<T>(c.weight_decay) * p.w;
  if (c.kind == OptimizerKind::kSgd) {
    p.w -= lr * g;
  } else if (c.moments() == 1) {
    p.m = momentum * p.m + g;
    p.w -= lr * (c.kind == OptimizerKind::kNesterov ? g + momentum * p.m : p.m);
  } else {
    p.m = static_cast<T>(c.beta1) * p.m + static_cast<T>(1 - c.beta1) * g;
    p.v = static_cast<T>(c.beta2) * p.v + static_cast<T>(1 - c.beta2) * g * g;
    const T root = std::sqrt(p.v) / static_cast<T>(std::sqrt(facts.bias2));
    p.w -= static_cast<T>(facts.lr / facts.bias1) * p.m /
           (root + static_cast<T>(c.epsilon));
  }
}

StepFacts FactsOfStep(const OptimizerConfig& c, int step,
                      double gradient_scale = 1) {
  return {.lr = 0.01 / step,
          .bias1 = 1 - std::pow(c.beta1, step),
          .bias2 = 1 - std::pow(c.beta2, step),
          .gradient_scale = gradient_scale};
}

// Weights and moments of a range, beside the reference of each element.
class Model {
 public:
  Model(const OptimizerConfig& config, int64_t size, std::mt19937_64& random)
      : config_(config),
        in_(size, 4),
        out_(size, 8),
        moment1_(size, 12),
        moment2_(size, 4),
        reference_(static_cast<size_t>(size)) {
    in_.Assign(RandomFloats(random, size, 1));
    moment1_.Assign(std::vector<float>(reference_.size(), 0));
    moment2_.Assign(std::vector<float>(reference_.size(), 0));
    for (size_t i = 0; i < reference_.size(); ++i)
      reference_[i].w = in_.data()[i];
  }

  StepTarget Target(bool in_place) {
    return {.in = in_.data(),
            .out = in_place ? in_.data() : out_.data(),
            .moment1 = config_.moments() > 0 ? moment1_.data() : nullptr,
            .moment2 = config_.moments() > 1 ? moment2_.data() : nullptr};
  }
  void StepReference(const StepFacts& facts,
                     const std::vector<float>& gradient) {
    for (size_t i = 0; i < reference_.size(); ++i) {
      ReferenceStep(config_, facts, gradient[i], reference_[i]);
    }
  }
  void ExpectSameBits(bool in_place) {
    const std::vector<float> w = in_place ? in_.Values() : out_.Values();
    for (size_t i = 0; i < reference_.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(w[i]),
                std::bit_cast<uint32_t>(reference_[i].w))
          << i;
      EXPECT_EQ(moment1_.data()[i], reference_[i].m) << i;
      EXPECT_EQ(moment2_.data()[i], reference_[i].v) << i;
    }
    EXPECT_TRUE(in_.Intact() && out_.Intact() && moment1_.Intact() &&
                moment2_.Intact());
    if (!in_place) in_.Assign(w);
  }
  float* out() { return out_.data(); }

 private:
  OptimizerConfig config_;
  Guarded<float> in_, out_, moment1_, moment2_;
  std::vector<Parameter<float>> reference_;
};

class OptimizerTest : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, OptimizerTest, EveryTarget(), TargetNameOf);

TEST_P(OptimizerTest, EverySizeHasTheBitsOfTheReferenceOverSeveralSteps) {
  std::mt19937_64 random(1);
  for (OptimizerKind kind : kAllOptimizers) {
    for (int64_t size : OddSizes()) {
      const bool in_place = size % 2 == 0;
      const OptimizerConfig config = {.kind = kind,
                                      .weight_decay = size % 3 == 0 ? 0.01 : 0};
      Model model(config, size, random);
      for (int step = 1; step <= 4; ++step) {
        const std::vector<float> gradient = RandomFloats(random, size);
        const StepFacts facts = FactsOfStep(config, step, step == 2 ? 0.37 : 1);
        device_->Step(config, facts, gradient.data(), size,
                      model.Target(in_place));
        model.StepReference(facts, gradient);
        model.ExpectSameBits(in_place);
      }
      ASSERT_FALSE(HasFailure()) << static_cast<int>(kind) << " " << size;
    }
  }
}

// Float32 against float64 over 50 steps, in units of 2^-24. Each of the 50
// additions rounds a weight of at most 0.5 + moved by 1. An update is off by a
// relative 120 at most: a first moment by 3 roundings in each of the 10 steps
// that it remembers, the root of a second by half of 3 in each of 50, and the
// rest of a formula by 15. Gradients have one sign, so that no moment cancels.
TEST_P(OptimizerTest, StaysCloseToFloat64) {
  constexpr int kSteps = 50;
  for (OptimizerKind kind : kAllOptimizers) {
    for (double weight_decay : {0.0, 0.1}) {
      std::mt19937_64 random(2);
      const OptimizerConfig config = {.kind = kind,
                                      .weight_decay = weight_decay};
      std::vector<float> w(33, 0.5f), m(33, 0), v(33, 0);
      std::vector<Parameter<double>> reference(33, {.w = 0.5});
      std::vector<double> moved(33, 0);
      for (int step = 1; step <= kSteps; ++step) {
        const StepFacts facts = FactsOfStep(config, step, 0.5);
        std::vector<float> gradient = RandomFloats(random, 33, 1);
        for (size_t i = 0; i < 33; ++i) {
          gradient[i] = std::abs(gradient[i]);
          const double before = reference[i].w;
          ReferenceStep<double>(config, facts, gradient[i], reference[i]);
          moved[i] += std::abs(reference[i].w - before);
        }
        const StepTarget target = {.in = w.data(),
                                   .out = w.data(),
                                   .moment1 = m.data(),
                                   .moment2 = v.data()};
        device_->Step(config, facts, gradient.data(), 33, target);
      }
      for (size_t i = 0; i < 33; ++i) {
        const double limit =
            0x1p-24 * (kSteps * (0.5 + moved[i]) + 120 * moved[i]);
        EXPECT_NEAR(w[i], reference[i].w, limit)
            << static_cast<int>(kind) << " " << weight_decay;
        EXPECT_GT(moved[i], 1e-3) << "the test must move the weights";
      }
    }
  }
}

TEST_P(OptimizerTest, TheFirstStepsOfHand) {
  const float gradient = 2;
  float w = 1, m = 0, v = 0;
  const StepTarget target = {.in = &w, .out = &w, .moment1 = &m, .moment2 = &v};
  const auto step = [&](OptimizerConfig config, StepFacts facts) {
    w = 1;
    device_->Step(config, facts, &gradient, 1, target);
  };
  step({.kind = OptimizerKind::kSgd}, {.lr = 0.25});
  EXPECT_EQ(w, 0.5f);
  step({.kind = OptimizerKind::kMomentum, .momentum = 0.5}, {.lr = 0.25});
  EXPECT_EQ(std::make_tuple(w, m), std::make_tuple(0.5f, 2.0f))
      << "the first buffer is g";
  step({.kind = OptimizerKind::kNesterov, .momentum = 0.5}, {.lr = 0.125});
  EXPECT_EQ(std::make_tuple(w, m), std::make_tuple(1 - 0.125f * 3.5f, 3.0f));
  step({.kind = OptimizerKind::kSgd, .weight_decay = 0.5},
       {.lr = 0.25, .gradient_scale = 0.25});
  EXPECT_EQ(w, 0.75f);
  m = 0;
  // Corrected for bias, the first step of Adam is lr * sign(g).
  const OptimizerConfig adamw = {.kind = OptimizerKind::kAdamW,
                                 .weight_decay = 0.5};
  step(adamw,
       {.lr = 0.125, .bias1 = 1 - adamw.beta1, .bias2 = 1 - adamw.beta2});
  EXPECT_NEAR(w, 1 - 0.125 * 0.5 - 0.125, 1e-6);
}

TEST_P(OptimizerTest, PublishesTheNewWeightsInEveryType) {
  std::mt19937_64 random(3);
  for (DType type : kAllTypes) {
    for (int64_t size : OddSizes()) {
      Model model(OptimizerConfig(), size, random);
      Guarded<uint8_t> publish(size * SizeOf(type), 1),
          expected(size * SizeOf(type), 1);
      StepTarget target = model.Target(false);
      target.publish = publish.bytes();
      target.publish_dtype = type;
      const std::vector<float> gradient = RandomFloats(random, size);
      device_->Step(OptimizerConfig(), FactsOfStep({}, 1), gradient.data(),
                    size, target);
      for (int64_t i = 0; i < size; ++i)
        StoreValue(model.out()[i], type, i, expected.bytes());
      ASSERT_TRUE(publish.Intact());
      ASSERT_EQ(publish.Values(), expected.Values())
          << NameOf(type) << " " << size;
    }
  }
}

// Past the caches or not, wherever they lie.
TEST_P(OptimizerTest, StreamedWeightsAreTheSame) {
  std::mt19937_64 random(5);
  for (const OptimizerKind kind : kAllOptimizers) {
    const OptimizerConfig config = {.kind = kind, .weight_decay = 0.01};
    for (const int64_t size : OddSizes()) {
      for (const int offset : {0, 4, 32}) {
        Guarded<float> in(size, 4), out(size, offset);
        in.Assign(RandomFloats(random, size));
        const std::vector<float> gradient = RandomFloats(random, size);
        std::vector<float> expected(size), m(size), v(size), m2(size), v2(size);
        const StepFacts facts = FactsOfStep(config, 1);
        device_->Step(config, facts, gradient.data(), size,
                      {.in = in.data(),
                       .out = expected.data(),
                       .moment1 = m.data(),
                       .moment2 = v.data()});
        device_->Step(config, facts, gradient.data(), size,
                      {.in = in.data(),
                       .out = out.data(),
                       .moment1 = m2.data(),
                       .moment2 = v2.data(),
                       .streams = true});
        ASSERT_TRUE(out.Intact());
        ASSERT_EQ(Bits(out.Values()), Bits(expected)) << size << " " << offset;
        ASSERT_EQ(m2, m);
        ASSERT_EQ(v2, v);
      }
    }
  }
}

TEST_P(OptimizerTest, WorkerMomentumIsAnAverage) {
  std::mt19937_64 random(4);
  for (int64_t size : OddSizes()) {
    Guarded<float> momentum(size, 4);
    momentum.Assign(RandomFloats(random, size));
    const std::vector<float> before = momentum.Values(),
                             gradient = RandomFloats(random, size);
    device_->WorkerMomentum(0.9, gradient.data(), size, momentum.data());
    std::vector<float> expected;
    for (size_t i = 0; i < before.size(); ++i) {
      expected.push_back(0.9f * before[i] +
                         static_cast<float>(1 - 0.9) * gradient[i]);
    }
    ASSERT_EQ(Bits(momentum.Values()), Bits(expected)) << size;
    ASSERT_TRUE(momentum.Intact());
  }
}

}  // namespace
}  // namespace parapet::kernel_testing
