#include "kernels/cuda/reduce_ordered.cuh"

namespace parapet::cuda {
namespace {

template <int N, bool kMedian>
__global__ void __launch_bounds__(kOrderedThreads)
    RowsKernel(const __grid_constant__ ReduceTask task,
               const __grid_constant__ InlineRows rows) {
  __shared__ float columns[kMedian ? 1 : N * kOrderedThreads];
  const Column column = kMedian ? Column() : ColumnOfThread(columns);
  for (int64_t j = FirstElement(); j < task.elements; j += ElementStep())
    OrderedAt<N, kMedian>(task, rows, j, column);
}

}  // namespace

CudaResult ReduceRows(const ReduceTask& task, const InlineRows& rows,
                      const Limits& limits, cudaStream_t stream) {
  const Shape shape = ElementShape(task.elements, kOrderedThreads, limits);
  if (shape.blocks == 0) return {};
  return WithPlaces(task.values, [&](auto places) -> CudaResult {
    const auto blocks = static_cast<unsigned>(shape.blocks);
    if (task.op == Operation::kMedian) {
      RowsKernel<places(), true>
          <<<blocks, shape.threads, 0, stream>>>(task, rows);
    } else {
      RowsKernel<places(), false>
          <<<blocks, shape.threads, 0, stream>>>(task, rows);
    }
    PARAPET_CUDA_TRY(cudaGetLastError());
    return {};
  });
}

}  // namespace parapet::cuda
