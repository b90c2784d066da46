#ifndef PARAPET_KERNELS_CUDA_MIX_H_
#define PARAPET_KERNELS_CUDA_MIX_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/rows.h"

namespace parapet::cuda {

// Combinations of the rows, and of the previous aggregate if it is a column.
// Sums are in float32, in column order. A combination whose weights are all the
// same is a sum times that weight: its coefficients are 1 and its factor is the
// weight. Of another, each term is added by a fused multiply-add, from 0: its
// factor is 1.
struct Mixing {
  int combinations = 0;  // 0: the rows as they are
  int columns = 0;       // rows, then the previous aggregate if it is one
  int stride = 0;        // combinations, and zeros up to a multiple of 4
  const float* coefficients = nullptr;  // columns x stride
  const float* factors = nullptr;       // stride of them
  const double* weights = nullptr;      // combinations x columns
  const float* previous = nullptr;      // the last column, or null
};

PARAPET_HD float InputAt(const Rows& rows, const Mixing& mixing, int column,
                         int64_t j) {
  return column < rows.count ? ValueAt(rows, column, j) : mixing.previous[j];
}

// One combination by itself. Columns without a weight are not read: one that is
// not finite does no harm there. What float32 cannot hold on the way is formed
// in float64.
PARAPET_HD float MixOne(const Rows& rows, const Mixing& mixing, int combination,
                        int64_t j) {
  const double* weights =
      mixing.weights + combination * int64_t{mixing.columns};
  float sum = 0;
  for (int c = 0; c < mixing.columns; ++c) {
    if (weights[c] == 0) continue;
    sum = fmaf(mixing.coefficients[c * int64_t{mixing.stride} + combination],
               InputAt(rows, mixing, c, j), sum);
  }
  sum *= mixing.factors[combination];
  if (IsFinite(sum)) return sum;
  double exact = 0;
  for (int c = 0; c < mixing.columns; ++c) {
    if (weights[c] == 0) continue;
    exact += weights[c] * static_cast<double>(InputAt(rows, mixing, c, j));
  }
  return static_cast<float>(exact);
}

// A fused multiply-add of a column to kGroup combinations at once.
template <int N>
PARAPET_HD void AddColumn(const float* coefficients, float x,
                          float (&sums)[N]) {
#ifdef __CUDA_ARCH__
  PARAPET_UNROLL
  for (int r = 0; r < N; r += 4) {
    const float4 c = __ldg(reinterpret_cast<const float4*>(coefficients + r));
    sums[r] = fmaf(c.x, x, sums[r]);
    sums[r + 1] = fmaf(c.y, x, sums[r + 1]);
    sums[r + 2] = fmaf(c.z, x, sums[r + 2]);
    sums[r + 3] = fmaf(c.w, x, sums[r + 3]);
  }
#else
  for (int r = 0; r < N; ++r) sums[r] = fmaf(coefficients[r], x, sums[r]);
#endif
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_MIX_H_
