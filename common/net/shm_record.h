#ifndef PARAPET_COMMON_NET_SHM_RECORD_H_
#define PARAPET_COMMON_NET_SHM_RECORD_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/rounding.h"

// What the two sides of a ring agree on; see shm_ring.h.
namespace parapet::net::shm_internal {

inline constexpr size_t kLine = 64;
inline constexpr uint32_t kNoSlot = ~uint32_t{0};

// The beginning of a record, padded to a line.
struct RecordHead {
  enum Kind : uint32_t {
    kMessage = 1,  // a header, and the payload or its first part
    kPart = 2,     // another part
    kSkip = 3,     // go on at the ring's first byte
  };
  uint32_t kind = 0;
  uint32_t header = 0;  // bytes
  // Where the payload is: in the record, or in a block, or lent.
  uint32_t slot = kNoSlot;
  uint32_t slab = 0;     // where it is lent from
  uint64_t offset = 0;   // in the slab
  uint64_t payload = 0;  // bytes of this record
  uint64_t total = 0;    // of the whole message
};
static_assert(sizeof(RecordHead) <= kLine);

inline size_t Padded(size_t bytes) { return RoundedUp(bytes, kLine); }

// In the ring.
inline size_t RecordBytes(const RecordHead& head) {
  return kLine + Padded(head.header) +
         (head.slot == kNoSlot ? Padded(head.payload) : 0);
}

inline absl::Status Broken(absl::string_view how) {
  return absl::DataLossError(
      absl::StrCat("it broke the rules of shared memory: ", how));
}

}  // namespace parapet::net::shm_internal

#endif  // PARAPET_COMMON_NET_SHM_RECORD_H_
