#ifndef PARAPET_COMMON_NET_SHM_RING_H_
#define PARAPET_COMMON_NET_SHM_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/mutex.h"
#include "common/net/shm_record.h"
#include "common/net/transport.h"
#include "common/payload.h"

namespace parapet::net {

// Messages from one process to another through memory that both map: a ring of
// small records, and blocks for payloads.
//
// A record is a head of 64 bytes, the message's header, and a payload of up to
// kInline bytes, each padded to 64 bytes; it never wraps, and the reader copies
// it and frees it at once. A larger payload lies in a block, which the reader's
// Payload keeps until the last copy of it is gone; blocks come back in any
// order. What is larger than a block comes in parts, and is put together in a
// buffer of its own, as is what comes while half of the blocks are kept: a
// reader that keeps what it got never stops the writer for good.
//
// A payload that lies in memory which the reader can map (shm_arena.h) is not
// copied at all: the record says where it is. The writer keeps it until the
// reader has let go of it. A slot is a block, or one of a number of payloads
// that are lent in this way.
//
// Either side may be hostile, and may write at any time: the other takes each
// number once, checks it, and uses the copy. The content of a payload may
// change while it is read; whoever needs it twice copies it.

// What both sides write. Zeroed at first. Positions count bytes, or slots,
// from the beginning.
struct ShmCounters {
  alignas(64) std::atomic<uint64_t> written;     // records, by the writer
  alignas(64) std::atomic<uint64_t> freed;       // records, by the reader
  alignas(64) std::atomic<uint64_t> returned;    // slots, by the reader
  alignas(64) std::atomic<uint32_t> wants_room;  // the writer waits for either
  // Slots that were returned: the k-th in place k modulo their number.
  static constexpr size_t kMostSlots = 8192;
  std::atomic<uint32_t> slots[kMostSlots];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

// The shape of one direction's memory: a ring, then blocks.
struct ShmShape {
  size_t ring = size_t{1} << 17;   // a power of two
  size_t block = size_t{1} << 18;  // a multiple of 64
  size_t blocks = 8;               // at least 2
  size_t loans = 120;              // payloads that are lent at a time

  size_t slots() const { return blocks + loans; }
  size_t bytes() const { return ring + block * blocks; }
  static constexpr size_t kMostSlots = ShmCounters::kMostSlots;
};

// One direction's memory. Whoever holds `owner` keeps it mapped.
struct ShmMemory {
  std::shared_ptr<const void> owner;
  ShmCounters* counters = nullptr;
  std::byte* bytes = nullptr;  // the reader only reads
  ShmShape shape;
};

// The writer's side. One thread.
class ShmWriter {
 public:
  static constexpr size_t kInline = 2048;

  explicit ShmWriter(ShmMemory memory);

  // How far a message has come.
  struct Progress {
    bool begun = false;
    size_t done = 0;  // bytes of its payload
  };
  // Where a whole payload lies in memory that the other side can map.
  struct Loan {
    uint32_t slab = 0;
    uint64_t offset = 0;
  };
  // Copies, or lends, as much of a message as there is room for. True once all
  // of it is there. When false, call again with the same arguments after the
  // other side has freed something; it will ring. DataLoss: it wrote nonsense.
  absl::StatusOr<bool> Write(absl::string_view header, const Payload& payload,
                             Progress* progress,
                             const std::optional<Loan>& loan = std::nullopt);

  // Whether the other side still has something that was lent to it. Also after
  // it has hung up: it may read on.
  bool Lends();

 private:
  // Where a record of so many bytes may be written; null: there is no room.
  absl::StatusOr<std::byte*> Room(size_t bytes);
  absl::StatusOr<size_t> FreeBytes();
  // A free one of `slots`; none: all are in use.
  std::optional<uint32_t> TakeSlot(std::vector<uint32_t>* slots);
  absl::Status TakeReturned();
  // Writes one record; false: there is no room for it.
  absl::StatusOr<bool> WritePart(absl::string_view header,
                                 const Payload& payload, Progress* progress,
                                 const std::optional<Loan>& loan);
  absl::StatusOr<bool> Place(const Payload& payload, size_t done,
                             const std::optional<Loan>& loan,
                             shm_internal::RecordHead* head);
  void Publish(size_t bytes);

  const ShmMemory memory_;
  uint64_t written_ = 0;
  uint64_t freed_ = 0, returned_ = 0;  // as last seen
  // Slots that are free; the one used last comes last.
  std::vector<uint32_t> blocks_, loans_;
  std::vector<bool> in_use_;
  std::vector<Payload> lent_;  // by slot
};

// The reader's side. One thread reads; payloads may be released on any.
class ShmReader {
 public:
  // `ring_bell` wakes the writer; from any thread, also after the reader is
  // gone.
  ShmReader(ShmMemory memory, const Limits& limits,
            std::function<void()> ring_bell);

  // The next message, if a whole one is there. DataLoss: the writer broke the
  // rules, in words; InvalidArgument: it is over the limits.
  struct Message {
    std::string header;
    Payload payload;
  };
  absl::StatusOr<std::optional<Message>> Read();

  // Whether something was written that was not read.
  bool HasMore() const;

  // Finds what the writer lends: bytes of a slab of its, and who keeps them
  // mapped. Until one is set, nothing may be lent.
  struct Lent {
    std::shared_ptr<const void> owner;
    const std::byte* data = nullptr;
  };
  using FindLent = std::function<absl::StatusOr<Lent>(
      uint32_t slab, uint64_t offset, uint64_t bytes)>;
  void SetLender(FindLent find) { find_ = std::move(find); }

 private:
  // Which slots are kept, shared with the payloads that keep them.
  class Slots {
   public:
    Slots(ShmMemory memory, std::function<void()> ring_bell);
    // False: it is kept already.
    bool Keep(uint32_t slot);
    void Return(uint32_t slot);
    size_t kept_blocks();
    void Ring();  // if the writer waits
    const ShmMemory& memory() const { return memory_; }

   private:
    const ShmMemory memory_;
    const std::function<void()> ring_bell_;
    Mutex mutex_;
    std::vector<bool> kept_ ABSL_GUARDED_BY(mutex_);
    size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
    uint64_t returned_ ABSL_GUARDED_BY(mutex_) = 0;
  };

  struct Record;

  absl::StatusOr<Record> ReadRecord();
  absl::Status Take(const Record& record);
  // The record's payload, in place or copied to the parts.
  absl::Status TakePayload(const Record& record);
  absl::StatusOr<Lent> Locate(const Record& record) const;
  bool IsWhole() const { return taken_ == total_; }

  const Limits limits_;
  const std::shared_ptr<Slots> slots_;
  FindLent find_;
  uint64_t read_ = 0;
  // The message that is being put together.
  std::optional<Message> message_;
  std::shared_ptr<std::string> parts_;
  size_t total_ = 0, taken_ = 0;
};

}  // namespace parapet::net

#endif  // PARAPET_COMMON_NET_SHM_RING_H_
