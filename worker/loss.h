#ifndef PARAPET_WORKER_LOSS_H_
#define PARAPET_WORKER_LOSS_H_

#include <cstdint>

#include "worker/model.h"

namespace parapet {

// Softmax cross-entropy of `count` x `classes` outputs, row-major. Unless
// `gradient` is null it becomes the gradient of the mean loss by the outputs.
// Labels lie in [0, classes). Computed in float64 with the largest output taken
// off first, so that no output is too large for it.
PassResult SoftmaxCrossEntropy(const float* outputs, const int32_t* labels,
                               int64_t count, int64_t classes, float* gradient);

}  // namespace parapet

#endif  // PARAPET_WORKER_LOSS_H_
