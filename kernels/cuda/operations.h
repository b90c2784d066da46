#ifndef PARAPET_KERNELS_CUDA_OPERATIONS_H_
#define PARAPET_KERNELS_CUDA_OPERATIONS_H_

#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/distance_tile.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/leaf_squares.h"
#include "kernels/cuda/reduce_coordinate.h"

namespace parapet::cuda {

// Submits an operation to a stream and returns. All addresses in a task are in
// device memory, and stay until the stream is done. Tasks of no elements do
// nothing.

// Limits of the thread's current GPU.
CudaResult AskLimits(Limits* limits);

// See ReduceTask. `entries`: what task.rows.entries points to, on the host.
// Fails, without a report, if `values` are more than can be sorted in this
// GPU's shared memory.
CudaResult Reduce(const ReduceTask& task, const RowEntry* entries,
                  const Limits& limits, cudaStream_t stream);
// The same by kernels for some operations, which Reduce chooses from: a mean of
// the rows or a vote of theirs; what needs order, over at most kMostInRegisters
// values, of rows or of combinations; and over more.
CudaResult ReduceStreamed(const ReduceTask& task, const Limits& limits,
                          cudaStream_t stream);
CudaResult ReduceRows(const ReduceTask& task, const InlineRows& rows,
                      const Limits& limits, cudaStream_t stream);
CudaResult ReduceMixed(const ReduceTask& task, const Limits& limits,
                       cudaStream_t stream);
CudaResult ReduceSorted(const ReduceTask& task, const Limits& limits,
                        cudaStream_t stream);

// Sets a report to nothing met.
CudaResult ClearReport(Report* report, int rows, cudaStream_t stream);

CudaResult Step(const StepNumbers& numbers, const float* gradient,
                int64_t elements, const StepPlaces& places,
                const Limits& limits, cudaStream_t stream);

// Sets finite, tile_sums and sums.
CudaResult Distances(const DistanceTask& task, const Limits& limits,
                     cudaStream_t stream);

CudaResult LeafSquares(const SquaresTask& task, const Limits& limits,
                       cudaStream_t stream);

// values * scale as `to`; adds to *overflows how many finite values became
// infinite.
CudaResult Encode(const float* values, int64_t elements, Stored to,
                  double scale, void* out, unsigned long long* overflows,
                  const Limits& limits, cudaStream_t stream);
// stored / scale.
CudaResult Decode(const void* in, Stored from, double scale, int64_t elements,
                  float* values, const Limits& limits, cudaStream_t stream);

// momentum = beta * momentum + rest * gradient.
CudaResult WorkerMomentum(float beta, float rest, const float* gradient,
                          int64_t elements, float* momentum,
                          const Limits& limits, cudaStream_t stream);

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_OPERATIONS_H_
