#ifndef PARAPET_COMMON_BUFFER_POOL_H_
#define PARAPET_COMMON_BUFFER_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"

namespace parapet {

// Buffers of one size that are used again: fresh pages from the system cost
// more than the copy that fills them. A buffer goes back to the pool when its
// last owner lets go, on whatever thread, also after the pool's owner has let
// go of the pool.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // Makes a buffer, or null if there is no memory for it. Any thread calls it.
  using Source = std::function<std::shared_ptr<std::byte>()>;

  // At most `max_idle` buffers are kept for later; more are freed.
  static std::shared_ptr<BufferPool> Create(size_t bytes, size_t max_idle);
  // The same of memory of another kind.
  static std::shared_ptr<BufferPool> CreateFrom(Source source, size_t max_idle);

  // At least `bytes` bytes, 64-byte aligned, with any content; or what the
  // source gave.
  std::shared_ptr<std::byte> Get();

 private:
  BufferPool(Source source, size_t max_idle)
      : source_(std::move(source)), max_idle_(max_idle) {}
  void Return(std::shared_ptr<std::byte> buffer);

  const Source source_;
  const size_t max_idle_;
  Mutex mutex_;
  std::vector<std::shared_ptr<std::byte>> idle_ ABSL_GUARDED_BY(mutex_);
};

// One buffer of its own size, 64-byte aligned, with any content.
std::shared_ptr<std::byte> MakeBuffer(size_t bytes);

// One buffer of its own size, 64-byte aligned, zeroed.
std::shared_ptr<std::byte> MakeZeroedBuffer(size_t bytes);

}  // namespace parapet

#endif  // PARAPET_COMMON_BUFFER_POOL_H_
