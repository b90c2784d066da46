#ifndef PARAPET_KERNELS_CUDA_LEAF_SQUARES_H_
#define PARAPET_KERNELS_CUDA_LEAF_SQUARES_H_

#include <cstdint>

#include "kernels/cuda/host_device.h"

namespace parapet::cuda {

// Sums of squares of leaves, see parapet::Device::LeafSquares: a thread for
// each of the 16 lanes of a leaf, then the lanes are added pairwise.
inline constexpr int kSquareLanes = 16;

struct SquaresTask {
  const float* values = nullptr;
  int64_t elements = 0;
  int64_t leaf = 1;
  double* sums = nullptr;  // one a leaf

  PARAPET_HD int64_t leaves() const { return (elements + leaf - 1) / leaf; }
};

// Phase 1: a lane's sum.
PARAPET_HD double LaneOfSquares(const SquaresTask& task, int64_t leaf,
                                int lane) {
  const int64_t begin = leaf * task.leaf;
  int64_t end = begin + task.leaf;
  if (end > task.elements) end = task.elements;
  double sum = 0;
  PARAPET_UNROLL_BY(8)
  for (int64_t j = begin + lane; j < end; j += kSquareLanes) {
    const auto x = static_cast<double>(task.values[j]);
    sum += x * x;
  }
  return sum;
}

// Phases 2 to 5, half = 8, 4, 2, 1: of the leaf's 16 lanes in shared memory.
PARAPET_HD void AddLanes(double* lanes, int lane, int half) {
  if (lane < half) lanes[lane] += lanes[lane + half];
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_LEAF_SQUARES_H_
