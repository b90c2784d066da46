// Means and votes of rows as they are: each row is read once, whatever their
// number.

#include "kernels/cuda/grid.h"
#include "kernels/cuda/operations.h"

namespace parapet::cuda {
namespace {

template <bool kVote>
struct StreamVisit {
  ReduceTask task;
  __device__ void operator()(int64_t j) const {
    if constexpr (kVote) {
      VoteAt(task, j);
    } else {
      MeanAt(task, j);
    }
  }
};

}  // namespace

CudaResult ReduceStreamed(const ReduceTask& task, const Limits& limits,
                          cudaStream_t stream) {
  if (task.op == Operation::kSignVote)
    return LaunchElements(task.elements, limits, stream,
                          StreamVisit<true>{task});
  return LaunchElements(task.elements, limits, stream,
                        StreamVisit<false>{task});
}

CudaResult ClearReport(Report* report, int rows, cudaStream_t stream) {
  PARAPET_CUDA_TRY(cudaMemsetAsync(
      report, 0, static_cast<size_t>(Report::BytesFor(rows)), stream));
  PARAPET_CUDA_TRY(cudaMemsetAsync(&report->first_bad, 0xFF,
                                   sizeof(report->first_bad), stream));
  return {};
}

}  // namespace parapet::cuda
