#include "kernels/cpu/optimizer.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parapet {
namespace HWY_NAMESPACE {
namespace {

// What a step updates besides the weights.
struct Moments {
  float* first;
  float* second;
};

// The optimizers: each takes the gradient (scaled, with decay) and a weight,
// updates the moments at i and returns the new weight.
struct Sgd {
  template <class D, class V>
  static HWY_INLINE V Update(D d, const StepConstants& c, const Moments&,
                             size_t, V g, V w) {
    return hn::Sub(w, hn::Mul(hn::Set(d, c.lr), g));
  }
};

template <bool kNesterov>
struct Momentum {
  template <class D, class V>
  static HWY_INLINE V Update(D d, const StepConstants& c,
                             const Moments& moments, size_t i, V g, V w) {
    const auto momentum = hn::Set(d, c.momentum);
    const auto m =
        hn::Add(hn::Mul(momentum, hn::LoadU(d, moments.first + i)), g);
    hn::StoreU(m, d, moments.first + i);
    const auto direction = kNesterov ? hn::Add(g, hn::Mul(momentum, m)) : m;
    return hn::Sub(w, hn::Mul(hn::Set(d, c.lr), direction));
  }
};

template <bool kShrink>
struct Adam {
  template <class D, class V>
  static HWY_INLINE V Update(D d, const StepConstants& c,
                             const Moments& moments, size_t i, V g, V w) {
    if (kShrink) w = hn::Mul(hn::Set(d, c.shrink), w);
    const auto m =
        hn::Add(hn::Mul(hn::Set(d, c.beta1), hn::LoadU(d, moments.first + i)),
                hn::Mul(hn::Set(d, c.one_minus_beta1), g));
    const auto square = hn::Mul(hn::Mul(hn::Set(d, c.one_minus_beta2), g), g);
    const auto v = hn::Add(
        hn::Mul(hn::Set(d, c.beta2), hn::LoadU(d, moments.second + i)), square);
    hn::StoreU(m, d, moments.first + i);
    hn::StoreU(v, d, moments.second + i);
    const auto root = hn::Div(hn::Sqrt(v), hn::Set(d, c.root_bias2));
    const auto denominator = hn::Add(root, hn::Set(d, c.epsilon));
    return hn::Sub(w,
                   hn::Div(hn::Mul(hn::Set(d, c.step_size), m), denominator));
  }
};

// The constants are copied into the lambda: stores through float pointers could
// otherwise change them, and the compiler would load them again at each
// element.
template <class Optimizer, bool kDecay>
void StepAll(const StepConstants& constants, const float* gradient, size_t n,
             const float* in, float* out, const Moments& moments, bool stream) {
  ForEach(hn::ScalableTag<float>(), n, [=](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, in + i);
    auto g = hn::Mul(hn::LoadU(d, gradient + i),
                     hn::Set(d, constants.gradient_scale));
    if (kDecay) g = hn::Add(g, hn::Mul(hn::Set(d, constants.weight_decay), w));
    const auto next = Optimizer::Update(d, constants, moments, i, g, w);
    if constexpr (MaxLanes(d) == 1) {
      hn::StoreU(next, d, out + i);
    } else {
      StoreOrStream(next, d, out + i, stream);
    }
  });
}

template <class Optimizer>
void StepWith(const StepConstants& c, const float* gradient, size_t n,
              const float* in, float* out, const Moments& moments,
              bool stream) {
  c.decay ? StepAll<Optimizer, true>(c, gradient, n, in, out, moments, stream)
          : StepAll<Optimizer, false>(c, gradient, n, in, out, moments, stream);
}

void Step(const StepConstants& c, const float* gradient, size_t n,
          const float* in, float* out, float* moment1, float* moment2,
          bool stream) {
  const Moments moments = {moment1, moment2};
  switch (c.kind) {
    case OptimizerKind::kSgd:
      return StepWith<Sgd>(c, gradient, n, in, out, moments, stream);
    case OptimizerKind::kMomentum:
      return StepWith<Momentum<false>>(c, gradient, n, in, out, moments,
                                       stream);
    case OptimizerKind::kNesterov:
      return StepWith<Momentum<true>>(c, gradient, n, in, out, moments, stream);
    case OptimizerKind::kAdam:
      return StepWith<Adam<false>>(c, gradient, n, in, out, moments, stream);
    case OptimizerKind::kAdamW:
      return StepAll<Adam<true>, false>(c, gradient, n, in, out, moments,
                                        stream);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parapet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parapet {
namespace {

HWY_EXPORT(Step);

}  // namespace

StepConstants MakeStepConstants(const OptimizerConfig& optimizer,
                                const StepFacts& facts) {
  const auto round = [](double x) { return static_cast<float>(x); };
  return {.kind = optimizer.kind,
          .decay = optimizer.weight_decay != 0,
          .gradient_scale = round(facts.gradient_scale),
          .weight_decay = round(optimizer.weight_decay),
          .shrink = round(1 - facts.lr * optimizer.weight_decay),
          .lr = round(facts.lr),
          .momentum = round(optimizer.momentum),
          .beta1 = round(optimizer.beta1),
          .one_minus_beta1 = round(1 - optimizer.beta1),
          .beta2 = round(optimizer.beta2),
          .one_minus_beta2 = round(1 - optimizer.beta2),
          .step_size = round(facts.lr / facts.bias1),
          .root_bias2 = round(std::sqrt(facts.bias2)),
          .epsilon = round(optimizer.epsilon)};
}

void StepRange(const StepConstants& constants, const float* gradient,
               size_t elements, const float* in, float* out, float* moment1,
               float* moment2, bool stream) {
  HWY_DYNAMIC_DISPATCH(Step)
  (constants, gradient, elements, in, out, moment1, moment2, stream);
}

}  // namespace parapet
#endif  // HWY_ONCE
