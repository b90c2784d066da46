#ifndef PARAPET_KERNELS_CUDA_MIX_H_
#define PARAPET_KERNELS_CUDA_MIX_H_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/rows.h"

namespace parapet::cuda {

// Combinations of the rows, and of the previous aggregate if it is a column:
// sums of weight times value in float32, in column order, by fused multiply-add
// from 0.
//
// Where the weights of every combination add up to 1, as nearest-neighbour
// mixing makes them, differences from one column are mixed: close vectors far
// from 0 lose nothing. The operation over the combinations then does not mind a
// constant that is added to all of them; it is added to its result.
struct Mixing {
  int combinations = 0;  // 0: the rows as they are
  int columns = 0;       // rows, then the previous aggregate if it is one
  int stride = 0;        // combinations, and zeros up to PlacesFor them
  int center = -1;       // a column; -1: values are mixed, not differences
  const float* coefficients = nullptr;  // columns x stride
  const double* weights = nullptr;      // combinations x columns
  const float* previous = nullptr;      // the last column, or null
};

PARAPET_HD float InputAt(const Rows& rows, const Mixing& mixing, int column,
                         int64_t j) {
  return column < rows.count ? ValueAt(rows, column, j) : mixing.previous[j];
}

PARAPET_HD float CenterAt(const Rows& rows, const Mixing& mixing, int64_t j) {
  return mixing.center < 0 ? 0 : InputAt(rows, mixing, mixing.center, j);
}

// One combination by itself, less the center.
PARAPET_HD float MixOne(const Rows& rows, const Mixing& mixing, int combination,
                        int64_t j, float center) {
  const float* coefficients = mixing.coefficients + combination;
  float sum = 0;
  for (int c = 0; c < mixing.columns; ++c) {
    const float coefficient = coefficients[c * int64_t{mixing.stride}];
    if (coefficient == 0) continue;
    sum = fmaf(coefficient, InputAt(rows, mixing, c, j) - center, sum);
  }
  return sum;
}

// The same in float64, rounded once and not a difference: for what float32
// cannot hold on the way. Columns without a weight are not read: one that is
// not finite does no harm there.
PARAPET_HD float MixOneInFloat64(const Rows& rows, const Mixing& mixing,
                                 int combination, int64_t j) {
  const double* weights =
      mixing.weights + combination * int64_t{mixing.columns};
  double sum = 0;
  for (int c = 0; c < mixing.columns; ++c) {
    if (weights[c] == 0) continue;
    sum += weights[c] * static_cast<double>(InputAt(rows, mixing, c, j));
  }
  return static_cast<float>(sum);
}

// A fused multiply-add of a column to N combinations at once.
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
