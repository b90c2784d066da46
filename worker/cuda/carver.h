#ifndef PARAPET_WORKER_CUDA_CARVER_H_
#define PARAPET_WORKER_CUDA_CARVER_H_

#include <cstddef>
#include <cstdint>

namespace parapet {

// Cuts arrays out of one piece of memory, each aligned to 256 bytes. Without
// memory it only counts: the same calls tell beforehand how much is needed.
class Carver {
 public:
  explicit Carver(void* memory = nullptr)
      : memory_(static_cast<std::byte*>(memory)) {}

  // Null while it only counts.
  template <typename T>
  T* Take(int64_t elements) {
    std::byte* const at = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (elements * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
    return reinterpret_cast<T*>(at);
  }

  int64_t bytes() const { return bytes_; }

 private:
  std::byte* const memory_;
  int64_t bytes_ = 0;
};

}  // namespace parapet

#endif  // PARAPET_WORKER_CUDA_CARVER_H_
