#include "kernels/cuda/operations.h"

namespace parapet::cuda {

CudaResult Reduce(const ReduceTask& task, const RowEntry* entries,
                  const Limits& limits, cudaStream_t stream) {
  const bool mixed = task.mixing.combinations > 0;
  if (!mixed && !NeedsOrder(task.op))
    return ReduceStreamed(task, limits, stream);
  if (task.values > kMostInRegisters) return ReduceSorted(task, limits, stream);
  if (mixed) return ReduceMixed(task, limits, stream);
  return ReduceRows(task, MakeInlineRows(task, entries), limits, stream);
}

}  // namespace parapet::cuda
