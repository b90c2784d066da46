#ifndef PARAPET_KERNELS_CUDA_ROWS_H_
#define PARAPET_KERNELS_CUDA_ROWS_H_

#include <cstdint>

#include "kernels/cuda/numbers.h"

namespace parapet::cuda {

// One row of a reduction: where it is among the rows that were staged, and what
// its numbers mean. A mean of rows divides what is stored by `divisor`; where
// the division is exact it is folded into the factor. All else multiplies by
// `inverse`: rows of another scale are decoded before they are staged.
struct RowEntry {
  int64_t offset = 0;  // bytes from the first row
  double divisor = 1;
  double factor = 1;  // the weight
  double weight = 1;  // in the sum of weights
  float inverse = 1;
};

inline RowEntry MakeRowEntry(int64_t offset, double scale, double weight) {
  const bool exact = DividesExactly(scale);
  return {.offset = offset,
          .divisor = exact ? 1 : scale,
          .factor = exact ? weight / scale : weight,
          .weight = weight,
          .inverse = exact ? static_cast<float>(1 / scale) : 1};
}

// Rows in one place, as the GPU reads them. Rows begin at a multiple of 4
// bytes.
struct Rows {
  const unsigned char* data = nullptr;
  const RowEntry* entries = nullptr;  // `count` of them
  int count = 0;
  Stored stored = Stored::kFloat32;
};

PARAPET_HD float StoredAt(const Rows& rows, int row, int64_t j) {
  return Widen(rows.data + rows.entries[row].offset, rows.stored, j);
}

// As float32: what everything but a mean of rows as they are works on.
PARAPET_HD float ValueAt(const Rows& rows, int row, int64_t j) {
  return StoredAt(rows, row, j) * rows.entries[row].inverse;
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_ROWS_H_
