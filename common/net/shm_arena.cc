#include "common/net/shm_arena.h"

#include <algorithm>
#include <utility>

#include "common/rounding.h"

namespace parapet::net {
namespace {

constexpr size_t kLine = 64, kPage = 4096;
// Of a slab, if a buffer is not larger: as much as there is already, so that
// there are few files, between these.
constexpr size_t kLeastSlab = size_t{32} << 20, kMostSlab = size_t{1} << 30;

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
  std::byte* buffer = nullptr;
  {
    MutexLock lock(&mutex_);
    std::vector<std::byte*>& free = free_[bytes];
    if (free.empty()) {
      buffer = Cut(bytes);
    } else {
      buffer = free.back();
      free.pop_back();
    }
  }
  if (buffer == nullptr) return nullptr;
  return {buffer, [arena = shared_from_this(), bytes](std::byte* at) {
            arena->Return(at, bytes);
          }};
}

void ShmArena::Return(std::byte* buffer, size_t bytes) {
  MutexLock lock(&mutex_);
  free_[bytes].push_back(buffer);
}

std::byte* ShmArena::Cut(size_t bytes) {
  if ((newest_ == nullptr || newest_->bytes - used_ < bytes) && !AddSlab(bytes))
    return nullptr;
  std::byte* const buffer = newest_->mapping.get() + used_;
  used_ += bytes;
  return buffer;
}

bool ShmArena::AddSlab(size_t bytes) {
  const size_t most =
      std::max(bytes, std::clamp(total_, kLeastSlab, kMostSlab));
  absl::StatusOr<Slab> made = MakeSlab(next_, RoundedUp(most, kPage));
  if (!made.ok()) return false;
  ++next_;
  newest_ = std::make_shared<Slab>(*std::move(made));
  used_ = 0;
  total_ += newest_->bytes;
  slabs_[newest_->mapping.get()] = newest_;
  return true;
}

std::optional<ShmArena::Place> ShmArena::Find(const void* data, size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  MutexLock lock(&mutex_);
  auto at = slabs_.upper_bound(begin);
  if (at == slabs_.begin()) return std::nullopt;
  --at;
  const auto offset = static_cast<size_t>(begin - at->first);
  const Slab& slab = *at->second;
  if (offset > slab.bytes || bytes > slab.bytes - offset) return std::nullopt;
  return Place{at->second, offset};
}

}  // namespace parapet::net
