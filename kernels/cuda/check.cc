#include "kernels/cuda/check.h"

#include <cstdio>
#include <cstring>

namespace parapet::cuda {
namespace {

// "kernels/cuda/memory.cc": from wherever it was compiled.
const char* BelowRoot(const char* file) {
  const char* at = std::strstr(file, "kernels/cuda/");
  if (at == nullptr) at = std::strstr(file, "worker/");
  return at == nullptr ? file : at;
}

CudaResult Failed(const char* call, const char* why, const char* file, int line,
                  bool out_of_memory) {
  return CudaResult::Failed(std::string(call) + ": " + why + " (" +
                                BelowRoot(file) + ":" + std::to_string(line) +
                                ")",
                            out_of_memory);
}

}  // namespace

CudaResult ResultOf(cudaError_t code, const char* call, const char* file,
                    int line) {
  if (code == cudaSuccess) return {};
  return Failed(call, cudaGetErrorString(code), file, line,
                code == cudaErrorMemoryAllocation);
}

CudaResult ResultOf(cublasStatus_t code, const char* call, const char* file,
                    int line) {
  if (code == CUBLAS_STATUS_SUCCESS) return {};
  return Failed(call, cublasGetStatusString(code), file, line,
                code == CUBLAS_STATUS_ALLOC_FAILED);
}

#ifdef PARAPET_HAVE_CUDNN
CudaResult ResultOf(cudnnStatus_t code, const char* call, const char* file,
                    int line) {
  if (code == CUDNN_STATUS_SUCCESS) return {};
  return Failed(call, cudnnGetErrorString(code), file, line,
                code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
}
#endif

void ReportFailure(const CudaResult& result) {
  if (!result.ok()) std::fprintf(stderr, "CUDA: %s\n", result.words().c_str());
}

}  // namespace parapet::cuda
