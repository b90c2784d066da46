#include "common/net/shm_arena.h"

#include <algorithm>
#include <utility>

namespace parapet::net {
namespace {

constexpr size_t kLine = 64, kPage = 4096;
constexpr size_t kSlab = size_t{32} << 20;  // if a buffer is not larger

size_t RoundedUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

absl::StatusOr<ShmArena::Slab> MakeSlab(uint32_t id, size_t bytes) {
  ShmArena::Slab slab;
  slab.id = id;
  slab.bytes = bytes;
  absl::StatusOr<UniqueFd> file = MakeSharedFile(bytes);
  if (!file.ok()) return file.status();
  absl::StatusOr<Mapping> mapping = MapFile(file->get(), bytes, true);
  if (!mapping.ok()) return mapping.status();
  absl::Status sealed = SealWriting(file->get());
  if (!sealed.ok()) return sealed;
  slab.file = *std::move(file);
  slab.mapping = *std::move(mapping);
  return slab;
}

}  // namespace

std::shared_ptr<std::byte> ShmArena::Allocate(size_t bytes) {
  bytes = RoundedUp(std::max<size_t>(bytes, 1), kLine);
  MutexLock lock(&mutex_);
  if (newest_ == nullptr || newest_->bytes - used_ < bytes) {
    absl::StatusOr<Slab> made =
        MakeSlab(next_, RoundedUp(std::max(bytes, kSlab), kPage));
    if (!made.ok()) return nullptr;
    ++next_;
    newest_ = std::make_shared<Slab>(*std::move(made));
    used_ = 0;
    slabs_[newest_->mapping.get()] = newest_;
  }
  std::byte* const buffer = newest_->mapping.get() + used_;
  used_ += bytes;
  // The buffer keeps its slab.
  return std::shared_ptr<std::byte>(newest_, buffer);
}

std::optional<ShmArena::Place> ShmArena::Find(const void* data, size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  MutexLock lock(&mutex_);
  auto at = slabs_.upper_bound(begin);
  if (at == slabs_.begin()) return std::nullopt;
  --at;
  std::shared_ptr<Slab> slab = at->second.lock();
  if (slab == nullptr) {
    slabs_.erase(at);  // its memory may be anything now
    return std::nullopt;
  }
  const auto offset = static_cast<size_t>(begin - at->first);
  if (offset > slab->bytes || bytes > slab->bytes - offset) return std::nullopt;
  return Place{std::move(slab), offset};
}

}  // namespace parapet::net
