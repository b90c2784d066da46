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
  // Makes a buffer of so many bytes, 64-byte aligned, on any thread. Null: it
  // cannot, and ordinary memory will do.
  using Allocate = std::function<std::shared_ptr<std::byte>(size_t)>;

  // At most `max_idle` buffers are kept for later; more are freed. `allocate`
  // may be empty, for ordinary memory.
  static std::shared_ptr<BufferPool> Create(size_t bytes, size_t max_idle,
                                            Allocate allocate = nullptr);

  // At least `bytes` bytes, 64-byte aligned, with any content.
  std::shared_ptr<std::byte> Get();

 private:
  BufferPool(size_t bytes, size_t max_idle, Allocate allocate)
      : bytes_(bytes), max_idle_(max_idle), allocate_(std::move(allocate)) {}
  std::shared_ptr<std::byte> MakeBuffer() const;
  void Return(std::shared_ptr<std::byte> buffer);

  const size_t bytes_, max_idle_;
  const Allocate allocate_;
  Mutex mutex_;
  std::vector<std::shared_ptr<std::byte>> idle_ ABSL_GUARDED_BY(mutex_);
};

// One buffer of its own size, 64-byte aligned, zeroed.
std::shared_ptr<std::byte> MakeZeroedBuffer(size_t bytes);

}  // namespace parapet

#endif  // PARAPET_COMMON_BUFFER_POOL_H_
