#ifndef PARAPET_COMMON_BUFFER_POOL_H_
#define PARAPET_COMMON_BUFFER_POOL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "common/mutex.h"

namespace parapet {

// Buffers of one size that are used again: fresh pages from the system cost
// more than the copy that fills them. A buffer goes back to the pool when its
// last owner lets go, on whatever thread, also after the pool's owner has let
// go of the pool.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // At most `max_idle` buffers are kept for later; more are freed.
  static std::shared_ptr<BufferPool> Create(size_t bytes, size_t max_idle);
  ~BufferPool();

  // At least `bytes` bytes, 64-byte aligned, with any content.
  std::shared_ptr<std::byte> Get();

 private:
  BufferPool(size_t bytes, size_t max_idle)
      : bytes_(bytes), max_idle_(max_idle) {}
  void Return(std::byte* buffer);

  const size_t bytes_, max_idle_;
  Mutex mutex_;
  std::vector<std::byte*> idle_ ABSL_GUARDED_BY(mutex_);
};

// One buffer of its own size, 64-byte aligned, zeroed.
std::shared_ptr<std::byte> MakeZeroedBuffer(size_t bytes);

}  // namespace parapet

#endif  // PARAPET_COMMON_BUFFER_POOL_H_
