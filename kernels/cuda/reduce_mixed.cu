#include "kernels/cuda/reduce_ordered.cuh"

namespace parapet::cuda {
namespace {

// How many blocks a multiprocessor is to hold. Left to itself, the compiler
// saves a register here and there and spills.
constexpr int BlocksFor(int values) {
  return values <= 16 ? 8 : values <= 32 ? 6 : 3;
}

template <int N, bool kMedian>
__global__ void __launch_bounds__(kOrderedThreads, BlocksFor(N))
    MixedKernel(const __grid_constant__ ReduceTask task) {
  __shared__ float columns[N * kOrderedThreads];
  for (int64_t j = FirstElement(); j < task.elements; j += ElementStep())
    MixedAt<N, kMedian>(task, j, ColumnOfThread(columns));
}

}  // namespace

CudaResult ReduceMixed(const ReduceTask& task, const Limits& limits,
                       cudaStream_t stream) {
  const Shape shape = ElementShape(task.elements, kOrderedThreads, limits);
  if (shape.blocks == 0) return {};
  return WithPlaces(task.values, [&](auto places) -> CudaResult {
    const auto blocks = static_cast<unsigned>(shape.blocks);
    if (task.op == Operation::kMedian) {
      MixedKernel<places(), true><<<blocks, shape.threads, 0, stream>>>(task);
    } else {
      MixedKernel<places(), false><<<blocks, shape.threads, 0, stream>>>(task);
    }
    PARAPET_CUDA_TRY(cudaGetLastError());
    return {};
  });
}

}  // namespace parapet::cuda
