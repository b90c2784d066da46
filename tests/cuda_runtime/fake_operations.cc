// The kernels, run by the CPU when their stream gets to them.

#include <cstring>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/operations.h"
#include "tests/cuda/host_run.h"
#include "tests/cuda_runtime/fake_runtime.h"

namespace parapet::cuda {
namespace {

CudaResult Launch(cudaStream_t stream, std::function<void()> work) {
  PARAPET_CUDA_TRY(fake::Submit(stream, std::move(work)));
  return {};
}

}  // namespace

CudaResult AskLimits(Limits* limits) {
  *limits = Limits();
  limits->multiprocessors = 4;
  return {};
}

CudaResult ClearReport(Report* report, int rows, cudaStream_t stream) {
  return Launch(stream, [=] {
    std::memset(static_cast<void*>(report), 0,
                static_cast<size_t>(Report::BytesFor(rows)));
    report->first_bad = Report::kNone;
  });
}

CudaResult Reduce(const ReduceTask& task, const RowEntry* entries,
                  const Limits& limits, cudaStream_t stream) {
  const std::vector<RowEntry> copy(entries, entries + task.rows.count);
  return Launch(stream, [=] { host::Reduce(task, copy.data(), limits); });
}

CudaResult Step(const StepNumbers& numbers, const float* gradient,
                int64_t elements, const StepPlaces& places, const Limits&,
                cudaStream_t stream) {
  return Launch(stream, [=] {
    for (int64_t j = 0; j < elements; ++j)
      StepElement(numbers, gradient[j], j, places);
  });
}

CudaResult Distances(const DistanceTask& task, const Limits& limits,
                     cudaStream_t stream) {
  return Launch(stream, [=] { host::Distances(task, limits); });
}

CudaResult LeafSquares(const SquaresTask& task, const Limits&,
                       cudaStream_t stream) {
  return Launch(stream, [=] { host::LeafSquares(task); });
}

CudaResult Encode(const float* values, int64_t elements, Stored to,
                  double scale, void* out, unsigned long long*, const Limits&,
                  cudaStream_t stream) {
  return Launch(stream, [=] {
    Report::Counter overflows = 0;
    for (int64_t j = 0; j < elements; ++j)
      EncodeAt(values, j, to, ScaleToEncode(scale), out, &overflows);
  });
}

}  // namespace parapet::cuda
