#ifndef PARAPET_KERNELS_CUDA_CHECK_H_
#define PARAPET_KERNELS_CUDA_CHECK_H_

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#ifdef PARAPET_HAVE_CUDNN
#include <cudnn.h>
#endif

#include <string>
#include <utility>

namespace parapet::cuda {

// Whether calls of CUDA's libraries went well; if not, which one did not and
// why, e.g. "cudaMalloc(&data, bytes): out of memory (kernels/cuda/
// memory.cc:14)". Only the standard library: also for programs that have
// nothing else.
class [[nodiscard]] CudaResult {
 public:
  CudaResult() = default;  // well
  static CudaResult Failed(std::string words, bool out_of_memory = false) {
    CudaResult result;
    result.ok_ = false;
    result.out_of_memory_ = out_of_memory;
    result.words_ = std::move(words);
    return result;
  }

  bool ok() const { return ok_; }
  bool out_of_memory() const { return out_of_memory_; }
  const std::string& words() const { return words_; }

 private:
  bool ok_ = true;
  bool out_of_memory_ = false;
  std::string words_;
};

CudaResult ResultOf(cudaError_t code, const char* call, const char* file,
                    int line);
CudaResult ResultOf(cublasStatus_t code, const char* call, const char* file,
                    int line);
#ifdef PARAPET_HAVE_CUDNN
CudaResult ResultOf(cudnnStatus_t code, const char* call, const char* file,
                    int line);
#endif
inline CudaResult ResultOf(CudaResult result, const char*, const char*, int) {
  return result;
}

// For destructors, which have nobody to tell: writes a failure to stderr.
void ReportFailure(const CudaResult& result);

}  // namespace parapet::cuda

// Returns from a function of type CudaResult if `call` failed: a cudaError_t, a
// cublasStatus_t, a cudnnStatus_t or a CudaResult. Every call of CUDA's
// libraries goes through one of these two.
#define PARAPET_CUDA_TRY(call)                                        \
  do {                                                                \
    ::parapet::cuda::CudaResult parapet_result_ =                     \
        ::parapet::cuda::ResultOf((call), #call, __FILE__, __LINE__); \
    if (!parapet_result_.ok()) return parapet_result_;                \
  } while (false)

// Where nothing can be returned.
#define PARAPET_CUDA_REPORT(call) \
  ::parapet::cuda::ReportFailure( \
      ::parapet::cuda::ResultOf((call), #call, __FILE__, __LINE__))

#endif  // PARAPET_KERNELS_CUDA_CHECK_H_
