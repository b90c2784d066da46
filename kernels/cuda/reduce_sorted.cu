// More values than registers hold, see sort_tile.h.

#include "kernels/cuda/grid.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/sort_tile.h"

namespace parapet::cuda {
namespace {

__global__ void __launch_bounds__(256)
    SortedKernel(const __grid_constant__ ReduceTask task, int lanes,
                 bool unsorted) {
  extern __shared__ float shared[];
  const int64_t size = int64_t{task.values} * lanes;
  SortTile tile = {
      .sorted = shared,
      .unsorted = unsorted ? shared + size : nullptr,
      .kept = reinterpret_cast<int*>(shared + (unsorted ? 2 : 1) * size),
      .lanes = lanes};
  const int thread = threadIdx.x, threads = blockDim.x;
  const int64_t step = int64_t{gridDim.x} * lanes;
  for (tile.begin = int64_t{blockIdx.x} * lanes; tile.begin < task.elements;
       tile.begin += step) {
    ClearPhase(task, tile, thread, threads);
    __syncthreads();
    LoadPhase(task, tile, thread, threads);
    __syncthreads();
    if (task.mixing.combinations > 0) {
      MixAgainPhase(task, tile, thread, threads);
      __syncthreads();
    }
    for (int p = 1; p < task.values; p *= 2) {
      for (int k = p; k >= 1; k /= 2) {
        SortPhase(task, tile, p, k, thread, threads);
        __syncthreads();
      }
    }
    FinishPhase(task, tile, thread, threads);
    __syncthreads();
  }
}

}  // namespace

CudaResult ReduceSorted(const ReduceTask& task, const Limits& limits,
                        cudaStream_t stream) {
  const bool unsorted = SumsInRowOrder(task.op, task.values);
  const SortShape made =
      ShapeOfSort(task.elements, task.values, unsorted ? 2 : 1, limits);
  if (made.lanes == 0) {
    return CudaResult::Failed(std::to_string(task.values) +
                              " rows are more than this GPU can sort in its " +
                              std::to_string(limits.shared_bytes) +
                              " bytes of shared memory");
  }
  if (made.shape.blocks == 0) return {};
  PARAPET_CUDA_TRY(AllowShared(SortedKernel, made.shape.shared_bytes));
  SortedKernel<<<static_cast<unsigned>(made.shape.blocks), made.shape.threads,
                 static_cast<size_t>(made.shape.shared_bytes), stream>>>(
      task, made.lanes, unsorted);
  PARAPET_CUDA_TRY(cudaGetLastError());
  return {};
}

}  // namespace parapet::cuda
