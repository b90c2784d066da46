#include "kernels/cuda/grid.h"
#include "kernels/cuda/leaf_squares.h"
#include "kernels/cuda/operations.h"

namespace parapet::cuda {
namespace {

__global__ void SquaresKernel(const __grid_constant__ SquaresTask task) {
  __shared__ double lanes[kLeavesOfBlock][kSquareLanes];
  const int lane = threadIdx.x % kSquareLanes, of = threadIdx.x / kSquareLanes;
  for (int64_t first = int64_t{blockIdx.x} * kLeavesOfBlock;
       first < task.leaves(); first += int64_t{gridDim.x} * kLeavesOfBlock) {
    const int64_t leaf = first + of;
    lanes[of][lane] = LaneOfSquares(task, leaf, lane);
    __syncthreads();
    for (int half = kSquareLanes / 2; half > 0; half /= 2) {
      AddLanes(lanes[of], lane, half);
      __syncthreads();
    }
    if (lane == 0 && leaf < task.leaves()) task.sums[leaf] = lanes[of][0];
    __syncthreads();
  }
}

}  // namespace

CudaResult LeafSquares(const SquaresTask& task, const Limits& limits,
                       cudaStream_t stream) {
  const Shape shape = ShapeOfSquares(task.leaves(), limits);
  if (shape.blocks == 0) return {};
  SquaresKernel<<<static_cast<unsigned>(shape.blocks), shape.threads, 0,
                  stream>>>(task);
  PARAPET_CUDA_TRY(cudaGetLastError());
  return {};
}

}  // namespace parapet::cuda
