#ifndef PARAPET_KERNELS_CUDA_MEMORY_H_
#define PARAPET_KERNELS_CUDA_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cuda/check.h"

namespace parapet::cuda {

// Owns memory of one kind. Freeing device memory waits for the whole device, so
// buffers are made once and kept.
template <class Kind>
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) Kind::Free(data_);
  }

  // `bytes` bytes with any content, aligned for every type; none for 0. What
  // *buffer held is freed first.
  static CudaResult Allocate(size_t bytes, Buffer* buffer) {
    Buffer fresh;
    *buffer = Buffer();
    if (bytes == 0) return {};
    PARAPET_CUDA_TRY(Kind::Allocate(bytes, &fresh.data_));
    fresh.size_ = bytes;
    *buffer = std::move(fresh);
    return {};
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Memory of the GPU that is the thread's current one (UseDevice).
struct DeviceMemory {
  static CudaResult Allocate(size_t bytes, void** data);
  static void Free(void* data);
};
using DeviceBuffer = Buffer<DeviceMemory>;

// Memory of the host that does not move, so that copies to and from a GPU need
// not wait for the CPU.
struct PinnedMemory {
  static CudaResult Allocate(size_t bytes, void** data);
  static void Free(void* data);
};
using PinnedBuffer = Buffer<PinnedMemory>;

// Bytes of the thread's current GPU that nobody uses.
CudaResult FreeMemory(int64_t* bytes);

}  // namespace parapet::cuda

#endif  // PARAPET_KERNELS_CUDA_MEMORY_H_
