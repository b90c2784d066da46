#ifndef PARAPET_KERNELS_CPU_LEAF_SQUARES_H_
#define PARAPET_KERNELS_CPU_LEAF_SQUARES_H_

#include <cstddef>

namespace parapet {

// The sum of squares of one leaf, in the order that Device::LeafSquares states.
double LeafSquare(const float* values, size_t elements);

}  // namespace parapet

#endif  // PARAPET_KERNELS_CPU_LEAF_SQUARES_H_
