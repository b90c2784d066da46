#ifndef PARAPET_COMMON_NET_SHM_ARENA_H_
#define PARAPET_COMMON_NET_SHM_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "common/mutex.h"
#include "common/net/shm_file.h"
#include "common/unique_fd.h"

namespace parapet::net {

// Memory of this process that its peers can read: what lies in it is sent by
// saying where. It consists of slabs, files that peers map read-only; buffers
// are cut from a slab one after the other, and the slab ends with the last of
// them. Made for pools, which seldom ask. Thread-safe.
class ShmArena : public std::enable_shared_from_this<ShmArena> {
 public:
  // A file, mapped here writable.
  struct Slab {
    uint32_t id = 0;  // never used again
    size_t bytes = 0;
    UniqueFd file;
    Mapping mapping;
  };

  static std::shared_ptr<ShmArena> Make() {
    return std::shared_ptr<ShmArena>(new ShmArena);
  }

  // A zeroed buffer, aligned to 64 bytes; null: there is no shared memory to be
  // had.
  std::shared_ptr<std::byte> Allocate(size_t bytes);

  // Where some bytes lie; none: not in a slab.
  struct Place {
    std::shared_ptr<const Slab> slab;
    size_t offset = 0;
  };
  std::optional<Place> Find(const void* data, size_t bytes);

 private:
  ShmArena() = default;

  Mutex mutex_;
  uint32_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Slab> newest_ ABSL_GUARDED_BY(mutex_);
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;  // of the newest
  // By their first byte. Their buffers keep them.
  std::map<const std::byte*, std::weak_ptr<Slab>> slabs_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SHM_ARENA_H_
