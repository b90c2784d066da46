#ifndef PARAPET_COMMON_NET_SHM_BORROWED_H_
#define PARAPET_COMMON_NET_SHM_BORROWED_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/net/shm_link.h"
#include "common/net/shm_ring.h"

namespace parapet::net {

// The slabs (shm_arena.h) that the other side of a connection lends from, as
// its socket tells of them, each once. What was found stays mapped for whoever
// keeps it. One thread.
class ShmBorrowed {
 public:
  // All that the socket has to tell. Unavailable: that is all, for now;
  // Aborted: the other side is gone; other errors: it broke the rules.
  absl::Status Take(int socket);
  // DataLoss: there is no such place. The socket told of it before the record
  // came that names it.
  absl::StatusOr<ShmReader::Lent> Find(int socket, uint32_t slab,
                                       uint64_t offset, uint64_t bytes);

 private:
  absl::flat_hash_map<uint32_t, ShmSlab> slabs_;
  size_t bytes_ = 0;  // of all of these
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SHM_BORROWED_H_
