#ifndef PARAPET_WORKER_POOL_H_
#define PARAPET_WORKER_POOL_H_

#include <cstdint>

namespace parapet {

// ReLU and 2x2 max pool with stride 2 in one pass, over images whose innermost
// dimension is a block of channels: images x height x width x block. That is
// what oneDNN's blocked formats, and the plain ones, have in common. An odd
// last row or column is left out.
struct PoolShape {
  int64_t images = 0, height = 0, width = 0, block = 1;
  int64_t pooled() const { return images * (height / 2) * (width / 2) * block; }
};

// `chosen` (pooled() of them) becomes where in its window the maximum was: 0 to
// 3 row by row, the first of equals; 4 where the ReLU is off. A NaN in a window
// comes out of it.
void PoolForward(const PoolShape& shape, const float* in, float* out,
                 int32_t* chosen);

// Spreads the gradient of `out` over that of `in`; an odd last row or column is
// not written.
void PoolBackward(const PoolShape& shape, const float* out_gradient,
                  const int32_t* chosen, float* in_gradient);

}  // namespace parapet

#endif  // PARAPET_WORKER_POOL_H_
