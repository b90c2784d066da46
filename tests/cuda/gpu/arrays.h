#ifndef PARAPET_TESTS_CUDA_GPU_ARRAYS_H_
#define PARAPET_TESTS_CUDA_GPU_ARRAYS_H_

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/stream.h"

namespace parapet::cuda::testing {

// An array on the GPU with poison behind it that must stay.
template <class T>
class GpuArray {
 public:
  static CudaResult Make(const std::vector<T>& values, GpuArray* made) {
    std::vector<unsigned char> bytes(values.size() * sizeof(T) + kGuard,
                                     kPoison);
    if (!values.empty())
      std::memcpy(bytes.data(), values.data(), values.size() * sizeof(T));
    GpuArray fresh;
    fresh.count_ = values.size();
    PARAPET_CUDA_TRY(DeviceBuffer::Allocate(bytes.size(), &fresh.buffer_));
    PARAPET_CUDA_TRY(cudaMemcpy(fresh.buffer_.data(), bytes.data(),
                                bytes.size(), cudaMemcpyHostToDevice));
    *made = std::move(fresh);
    return {};
  }

  T* data() const { return buffer_.template as<T>(); }

  // Waits for all that was submitted. Fails if something was written behind it.
  CudaResult Receive(std::vector<T>* values) const {
    std::vector<unsigned char> bytes(buffer_.size());
    PARAPET_CUDA_TRY(cudaDeviceSynchronize());
    PARAPET_CUDA_TRY(cudaMemcpy(bytes.data(), buffer_.data(), bytes.size(),
                                cudaMemcpyDeviceToHost));
    const size_t size = count_ * sizeof(T);
    for (size_t i = size; i < bytes.size(); ++i) {
      if (bytes[i] != kPoison)
        return CudaResult::Failed("something was written behind an output");
    }
    values->resize(count_);
    if (size > 0) std::memcpy(values->data(), bytes.data(), size);
    return {};
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr unsigned char kPoison = 0xFF;

  DeviceBuffer buffer_;
  size_t count_ = 0;
};

}  // namespace parapet::cuda::testing

#endif  // PARAPET_TESTS_CUDA_GPU_ARRAYS_H_
