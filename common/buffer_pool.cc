#include "common/buffer_pool.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace parapet {
namespace {

constexpr size_t kAlignment = 64;

std::byte* Allocate(size_t bytes) {
  return static_cast<std::byte*>(
      ::operator new (bytes == 0 ? 1 : bytes, std::align_val_t{kAlignment}));
}

void Free(std::byte* buffer) {
  ::operator delete (buffer, std::align_val_t{kAlignment});
}

}  // namespace

std::shared_ptr<BufferPool> BufferPool::Create(size_t bytes, size_t max_idle) {
  return std::shared_ptr<BufferPool>(new BufferPool(bytes, max_idle));
}

BufferPool::~BufferPool() {
  for (std::byte* buffer : idle_) Free(buffer);
}

std::shared_ptr<std::byte> BufferPool::Get() {
  std::byte* buffer = nullptr;
  {
    MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      buffer = idle_.back();
      idle_.pop_back();
    }
  }
  if (buffer == nullptr) buffer = Allocate(bytes_);
  return {buffer,
          [pool = shared_from_this()](std::byte* b) { pool->Return(b); }};
}

void BufferPool::Return(std::byte* buffer) {
  {
    MutexLock lock(&mutex_);
    if (idle_.size() < max_idle_) {
      idle_.push_back(buffer);
      return;
    }
  }
  Free(buffer);
}

std::shared_ptr<std::byte> MakeZeroedBuffer(size_t bytes) {
  std::byte* buffer = Allocate(bytes);
  std::memset(buffer, 0, bytes);
  return {buffer, Free};
}

}  // namespace parapet
