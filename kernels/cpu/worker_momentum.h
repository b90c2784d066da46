#ifndef PARAPET_KERNELS_CPU_WORKER_MOMENTUM_H_
#define PARAPET_KERNELS_CPU_WORKER_MOMENTUM_H_

#include <cstddef>

namespace parapet {

// Device::WorkerMomentum. In float32: (beta * momentum) + ((1 - beta) *
// gradient).
void WorkerMomentumRange(double beta, const float* gradient, size_t elements,
                         float* momentum);

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_WORKER_MOMENTUM_H_
