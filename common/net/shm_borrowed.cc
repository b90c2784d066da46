#include "common/net/shm_borrowed.h"

#include <utility>

#include "common/status_macros.h"

namespace parapet::net {
namespace {

// A process has room for many such peers.
constexpr size_t kMostSlabs = 4096, kMostBytes = size_t{1} << 40;

}  // namespace

absl::Status ShmBorrowed::Take(int socket) {
  while (true) {
    PARAPET_ASSIGN_OR_RETURN(ShmSlab slab,
                             TakeSlab(socket, kMostBytes - bytes_));
    const uint32_t id = slab.id;
    const size_t bytes = slab.bytes;
    if (slabs_.size() >= kMostSlabs)
      return absl::ResourceExhaustedError("it lends from too many files");
    if (!slabs_.emplace(id, std::move(slab)).second)
      return absl::DataLossError("it lends two files by one number");
    bytes_ += bytes;
  }
}

absl::StatusOr<ShmReader::Lent> ShmBorrowed::Find(int socket, uint32_t slab,
                                                  uint64_t offset,
                                                  uint64_t bytes) {
  auto found = slabs_.find(slab);
  if (found == slabs_.end()) {
    (void)Take(socket);
    found = slabs_.find(slab);
  }
  if (found == slabs_.end() || offset > found->second.bytes ||
      bytes > found->second.bytes - offset)
    return absl::DataLossError("it lends what it does not have");
  const Mapping& mapping = found->second.mapping;
  return ShmReader::Lent{mapping, mapping.get() + offset};
}

}  // namespace parapet::net
