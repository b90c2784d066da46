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
  return CreateFrom([bytes] { return MakeBuffer(bytes); }, max_idle);
}

std::shared_ptr<BufferPool> BufferPool::CreateFrom(Source source,
                                                   size_t max_idle) {
  return std::shared_ptr<BufferPool>(
      new BufferPool(std::move(source), max_idle));
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
  if (buffer == nullptr) buffer = source_();
  if (buffer == nullptr) return nullptr;
  std::byte* at = buffer.get();
  return {at, [pool = shared_from_this(), buffer = std::move(buffer)](
                  std::byte*) mutable { pool->Return(std::move(buffer)); }};
}

void BufferPool::Return(std::shared_ptr<std::byte> buffer) {
  MutexLock lock(&mutex_);
  if (idle_.size() < max_idle_) idle_.push_back(std::move(buffer));
}

std::shared_ptr<std::byte> MakeBuffer(size_t bytes) {
  return {Allocate(bytes), Free};
}

std::shared_ptr<std::byte> MakeZeroedBuffer(size_t bytes) {
  std::byte* buffer = Allocate(bytes);
  std::memset(buffer, 0, bytes);
  return {buffer, Free};
}

}  // namespace parapet
