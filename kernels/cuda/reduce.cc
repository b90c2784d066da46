#include "kernels/cuda/operations.h"
#include "kernels/cuda/sort_tile.h"

namespace parapet::cuda {

CudaResult Reduce(const ReduceTask& task, const RowEntry* entries,
                  const Limits& limits, cudaStream_t stream) {
  const bool mixed = task.mixing.combinations > 0;
  if (!mixed && !NeedsOrder(task.op))
    return ReduceStreamed(task, limits, stream);
  InlineRows rows;
  if (mixed && task.values <= kMostInRegisters)
    return ReduceMixed(task, limits, stream);
  if (!mixed && MakeInlineRows(task, entries, &rows))
    return ReduceRows(task, rows, limits, stream);
  return ReduceSorted(task, limits, stream);
}

}  // namespace parapet::cuda
