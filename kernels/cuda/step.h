#ifndef PARAPET_KERNELS_CUDA_STEP_H_
#define PARAPET_KERNELS_CUDA_STEP_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/numbers.h"

namespace parapet::cuda {

// The values are those of parapet::OptimizerKind.
enum class Optimizer : uint8_t { kSgd, kMomentum, kNesterov, kAdam, kAdamW };

// The float32 numbers of a step, see StepConstants in kernels/cpu/optimizer.h.
struct StepNumbers {
  Optimizer kind = Optimizer::kSgd;
  bool decay = false;
  float gradient_scale = 1;
  float weight_decay = 0;
  float shrink = 1;
  float lr = 0;
  float momentum = 0;
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float step_size = 0;
  float root_bias2 = 1;
  float epsilon = 0;
};

// Where a step reads and writes, in device memory. `in` may be `out`; `publish`
// may be null.
struct StepPlaces {
  const float* in = nullptr;
  float* out = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  void* publish = nullptr;
  Stored published = Stored::kFloat32;
};

PARAPET_HD float MomentumStep(const StepNumbers& c, float g, float w,
                              float* moment) {
  const float m = c.momentum * *moment + g;
  *moment = m;
  const float direction =
      c.kind == Optimizer::kNesterov ? g + c.momentum * m : m;
  return w - c.lr * direction;
}

PARAPET_HD float AdamStep(const StepNumbers& c, float g, float w,
                          float* moment1, float* moment2) {
  const float m = c.beta1 * *moment1 + c.one_minus_beta1 * g;
  const float v = c.beta2 * *moment2 + (c.one_minus_beta2 * g) * g;
  *moment1 = m;
  *moment2 = v;
  return w - (c.step_size * m) / (sqrtf(v) / c.root_bias2 + c.epsilon);
}

// One optimizer step at one element: the formulas of StepRange in
// kernels/cpu/optimizer.h, in float32 and in that order.
PARAPET_HD void StepElement(const StepNumbers& c, float gradient, int64_t j,
                            const StepPlaces& at) {
  float w = at.in[j];
  float g = gradient * c.gradient_scale;
  if (c.kind == Optimizer::kAdamW) {
    w = c.shrink * w;
  } else if (c.decay) {
    g = g + c.weight_decay * w;
  }
  if (c.kind == Optimizer::kSgd) {
    w = w - c.lr * g;
  } else if (c.kind == Optimizer::kMomentum || c.kind == Optimizer::kNesterov) {
    w = MomentumStep(c, g, w, at.moment1 + j);
  } else {
    w = AdamStep(c, g, w, at.moment1 + j, at.moment2 + j);
  }
  at.out[j] = w;
  if (at.publish != nullptr) Narrow(w, at.publish, at.published, j);
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_STEP_H_
