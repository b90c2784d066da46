#ifndef PARAPET_KERNELS_CUDA_REDUCE_ORDERED_CUH_
#define PARAPET_KERNELS_CUDA_REDUCE_ORDERED_CUH_

// Operations that need order, of at most kMostInRegisters values: each thread
// sorts those of one coordinate in its registers.

#include "kernels/cuda/grid.h"
#include "kernels/cuda/operations.h"

namespace parapet::cuda {

inline constexpr int kOrderedThreads = 128;

// Calls launch(N) with the least N that kernels are made for.
template <class Launch>
CudaResult WithPlaces(int values, const Launch& launch) {
  if (values <= 8) return launch(std::integral_constant<int, 8>());
  if (values <= 16) return launch(std::integral_constant<int, 16>());
  if (values <= 32) return launch(std::integral_constant<int, 32>());
  return launch(std::integral_constant<int, 64>());
}

// Of an array that is as long as a block has threads, one for each of N values.
__device__ inline Column ColumnOfThread(float* columns) {
  return {columns + threadIdx.x, kOrderedThreads};
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_REDUCE_ORDERED_CUH_
