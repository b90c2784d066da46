#ifndef PARAPET_COMMON_NET_SHM_ARENA_H_
#define PARAPET_COMMON_NET_SHM_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/mutex.h"
#include "common/net/shm_file.h"
#include "common/unique_fd.h"

namespace parapet::net {

// Memory of this process that its peers can read: what lies in it is sent by
// saying where. It consists of slabs, files that peers map read-only, from
// which buffers are cut one after the other. A buffer that was let go of is the
// next one of its size: peers keep every slab that they have mapped, so memory
// that came and went in new ones would grow without end. All slabs end with the
// arena, which its buffers keep. Made for few sizes. Thread-safe.
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

  // A buffer with any content, aligned to 64 bytes; null: there is no shared
  // memory to be had.
  std::shared_ptr<std::byte> Allocate(size_t bytes);

  // Where some bytes lie; none: not in a slab.
  struct Place {
    std::shared_ptr<const Slab> slab;
    size_t offset = 0;
  };
  std::optional<Place> Find(const void* data, size_t bytes);

 private:
  ShmArena() = default;
  // Null: there is none left.
  std::byte* Cut(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AddSlab(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return(std::byte* buffer, size_t bytes);

  Mutex mutex_;
  uint32_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t total_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of all slabs
  std::shared_ptr<Slab> newest_ ABSL_GUARDED_BY(mutex_);
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;  // of the newest
  // By their first byte.
  std::map<const std::byte*, std::shared_ptr<Slab>> slabs_
      ABSL_GUARDED_BY(mutex_);
  // Those that nobody has, by their size.
  std::map<size_t, std::vector<std::byte*>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SHM_ARENA_H_
