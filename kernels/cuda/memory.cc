#include "kernels/cuda/memory.h"

namespace parapet::cuda {

CudaResult DeviceMemory::Allocate(size_t bytes, void** data) {
  PARAPET_CUDA_TRY(cudaMalloc(data, bytes));
  return {};
}

void DeviceMemory::Free(void* data) { PARAPET_CUDA_REPORT(cudaFree(data)); }

CudaResult PinnedMemory::Allocate(size_t bytes, void** data) {
  // Portable: whichever GPU is the current one of the thread that copies.
  PARAPET_CUDA_TRY(cudaHostAlloc(data, bytes, cudaHostAllocPortable));
  return {};
}

void PinnedMemory::Free(void* data) { PARAPET_CUDA_REPORT(cudaFreeHost(data)); }

CudaResult FreeMemory(int64_t* bytes) {
  size_t free = 0, total = 0;
  PARAPET_CUDA_TRY(cudaMemGetInfo(&free, &total));
  *bytes = static_cast<int64_t>(free);
  return {};
}

}  // namespace parapet::cuda
