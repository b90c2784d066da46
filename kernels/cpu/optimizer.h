#ifndef PARAPET_KERNELS_CPU_OPTIMIZER_H_
#define PARAPET_KERNELS_CPU_OPTIMIZER_H_

#include <cstddef>

#include "common/job.h"
#include "kernels/device.h"

namespace parapet {

// The float32 numbers of a step, each computed in float64 and rounded once.
struct StepConstants {
  OptimizerKind kind = OptimizerKind::kSgd;
  bool decay = false;  // add weight_decay * w to the gradient
  float gradient_scale = 1;
  float weight_decay = 0;
  float shrink = 1;  // adamw: 1 - lr * weight_decay
  float lr = 0;
  float momentum = 0;
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float step_size = 0;   // adam: lr / bias1
  float root_bias2 = 1;  // adam: sqrt(bias2)
  float epsilon = 0;
};

StepConstants MakeStepConstants(const OptimizerConfig& optimizer,
                                const StepFacts& facts);

// One optimizer step; `in` may be `out`. The formulas, in float32 and in this
// order, with g the gradient, w the weight, m and v the moments:
//   all             g = g * gradient_scale
//   all but adamw   g = g + weight_decay * w                (not with
//   weight_decay 0) sgd             w = w - lr * g momentum        m = momentum
//   * m + g;                   w = w - lr * m nesterov        m = momentum * m
//   + g;                   w = w - lr * (g + momentum * m) adamw           w =
//   shrink * w;                         then as adam adam            m = beta1
//   * m + (1 - beta1) * g;        v = beta2 * v + ((1 - beta2) * g) * g
//                   w = w - (step_size * m) / (sqrt(v) / root_bias2 + epsilon)
//
// `stream`: `out` is 64-byte aligned and written past the caches; the caller
// flushes.
void StepRange(const StepConstants& constants, const float* gradient,
               size_t elements, const float* in, float* out, float* moment1,
               float* moment2, bool stream);

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_OPTIMIZER_H_
