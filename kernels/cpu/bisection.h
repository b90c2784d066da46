#ifndef PARAPET_KERNELS_CPU_BISECTION_H_
#define PARAPET_KERNELS_CPU_BISECTION_H_

#include <cstddef>

#include "kernels/device.h"

namespace parapet {

// The median or the trimmed mean of each column of a tile of rows x columns
// float32 values, aligned to 64 bytes; columns a multiple of 16. Finds the
// values of the wanted ranks bit by bit, by counting how many are below: 32
// passes over the tile whatever the number of rows. Changes the tile.
void BisectTile(CoordinateOp op, int f, int rows, float* tile, size_t columns,
                float* out);

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_BISECTION_H_
