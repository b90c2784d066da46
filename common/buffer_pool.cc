#include "common/buffer_pool.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace parapet {
namespace {

constexpr size_t kAlignment = 64;

std::byte* Make(size_t bytes) {
  return static_cast<std::byte*>(
      ::operator new (bytes == 0 ? 1 : bytes, std::align_val_t{kAlignment}));
}

void Free(std::byte* buffer) {
  ::operator delete (buffer, std::align_val_t{kAlignment});
}

}  // namespace

std::shared_ptr<BufferPool> BufferPool::Create(size_t bytes, size_t max_idle,
                                               Allocate allocate) {
  return std::shared_ptr<BufferPool>(
      new BufferPool(bytes, max_idle, std::move(allocate)));
}

std::shared_ptr<std::byte> BufferPool::MakeBuffer() const {
  std::shared_ptr<std::byte> buffer;
  if (allocate_) buffer = allocate_(bytes_);
  return buffer != nullptr ? buffer
                           : std::shared_ptr<std::byte>(Make(bytes_), Free);
}

std::shared_ptr<std::byte> BufferPool::Get() {
  std::shared_ptr<std::byte> buffer;
  {
    MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      buffer = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (buffer == nullptr) buffer = MakeBuffer();
  std::byte* const bytes = buffer.get();
  return {bytes, [pool = shared_from_this(), buffer](std::byte*) {
            pool->Return(buffer);
          }};
}

void BufferPool::Return(std::shared_ptr<std::byte> buffer) {
  MutexLock lock(&mutex_);
  if (idle_.size() < max_idle_) idle_.push_back(std::move(buffer));
}

std::shared_ptr<std::byte> MakeZeroedBuffer(size_t bytes) {
  std::byte* buffer = Make(bytes);
  std::memset(buffer, 0, bytes);
  return {buffer, Free};
}

}  // namespace parapet
