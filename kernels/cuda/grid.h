#ifndef PARAPET_KERNELS_CUDA_GRID_H_
#define PARAPET_KERNELS_CUDA_GRID_H_

// For .cu files: where a thread is, in 64 bits.

#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.h"

namespace parapet::cuda {

__device__ inline int64_t FirstElement() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline int64_t ElementStep() {
  return int64_t{gridDim.x} * blockDim.x;
}

// Lets a kernel use more shared memory than every GPU has.
template <class Kernel>
CudaResult AllowShared(Kernel kernel, int64_t bytes) {
  if (bytes > 48 * 1024) {
    PARAPET_CUDA_TRY(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        static_cast<int>(bytes)));
  }
  return {};
}

// Launches visit(j) for each element.
template <class Visit>
__global__ void ForElements(int64_t elements,
                            const __grid_constant__ Visit visit) {
  for (int64_t j = FirstElement(); j < elements; j += ElementStep()) visit(j);
}
template <class Visit>
CudaResult LaunchElements(int64_t elements, const Limits& limits,
                          cudaStream_t stream, const Visit& visit) {
  const Shape shape = ElementShape(elements, 256, limits);
  if (shape.blocks == 0) return {};
  ForElements<<<static_cast<unsigned>(shape.blocks), shape.threads, 0,
                stream>>>(elements, visit);
  PARAPET_CUDA_TRY(cudaGetLastError());
  return {};
}

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_GRID_H_
