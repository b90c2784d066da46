#include <algorithm>
#include <cstring>
#include <utility>

#include "common/net/shm_record.h"
#include "common/net/shm_ring.h"
#include "common/status_macros.h"

namespace parapet::net {

using shm_internal::Broken;
using shm_internal::kLine;
using shm_internal::kNoSlot;
using shm_internal::Padded;
using shm_internal::RecordHead;

// In one call, so that a writer that never ends its message keeps nobody.
constexpr int kMostRecords = 64;

// A copy of a record's head, checked, and where the rest of it is.
struct ShmReader::Record {
  RecordHead head;
  const std::byte* begin = nullptr;
  size_t bytes = 0;  // in the ring
};

// ---- Slots ------------------------------------------------------------------

ShmReader::Slots::Slots(ShmMemory memory, std::function<void()> ring_bell)
    : memory_(std::move(memory)),
      ring_bell_(std::move(ring_bell)),
      kept_(memory_.shape.slots()) {}

bool ShmReader::Slots::Keep(uint32_t slot) {
  MutexLock lock(&mutex_);
  if (kept_[slot]) return false;
  kept_[slot] = true;
  if (slot < memory_.shape.blocks) ++count_;
  return true;
}

void ShmReader::Slots::Return(uint32_t slot) {
  {
    MutexLock lock(&mutex_);
    kept_[slot] = false;
    if (slot < memory_.shape.blocks) --count_;
    memory_.counters->slots[returned_ % kept_.size()].store(
        slot, std::memory_order_relaxed);
    memory_.counters->returned.store(++returned_, std::memory_order_seq_cst);
  }
  Ring();
}

size_t ShmReader::Slots::kept_blocks() {
  MutexLock lock(&mutex_);
  return count_;
}

void ShmReader::Slots::Ring() {
  if (memory_.counters->wants_room.load(std::memory_order_seq_cst) != 0 &&
      memory_.counters->wants_room.exchange(0) != 0)
    ring_bell_();
}

// ---- Records ----------------------------------------------------------------

ShmReader::ShmReader(ShmMemory memory, const Limits& limits,
                     std::function<void()> ring_bell)
    : limits_(limits),
      slots_(std::make_shared<Slots>(std::move(memory), std::move(ring_bell))) {
}

bool ShmReader::HasMore() const {
  return slots_->memory().counters->written.load(std::memory_order_seq_cst) !=
         read_;
}

absl::StatusOr<ShmReader::Record> ShmReader::ReadRecord() {
  const ShmMemory& memory = slots_->memory();
  const size_t ring = memory.shape.ring;
  const uint64_t there =
      memory.counters->written.load(std::memory_order_acquire) - read_;
  if (there > ring || there % kLine != 0)
    return Broken("more was written than there is room for");
  const size_t place = static_cast<size_t>(read_) & (ring - 1);
  const size_t most = std::min<size_t>(there, ring - place);
  Record record{{}, memory.bytes + place, 0};
  std::memcpy(&record.head, record.begin, sizeof(record.head));
  // From here on the compiler may not look at the ring again instead.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const RecordHead& head = record.head;
  if (head.kind == RecordHead::kSkip) {
    record.bytes = ring - place;
    return most == record.bytes ? absl::StatusOr<Record>(record)
                                : Broken("a skip past the end");
  }
  const bool in_line = head.slot == kNoSlot;
  if (head.kind != RecordHead::kMessage && head.kind != RecordHead::kPart)
    return Broken("a record of no known kind");
  if (head.header > most || (in_line && head.payload > ShmWriter::kInline) ||
      (record.bytes = shm_internal::RecordBytes(head)) > most)
    return Broken("a record past its end");
  if (in_line) return record;
  const bool in_block = head.slot < memory.shape.blocks;
  if (head.slot >= memory.shape.slots() || head.payload == 0 ||
      (in_block && head.payload > memory.shape.block) ||
      (!in_block && head.payload != head.total))
    return Broken("a payload where none can be");
  return record;
}

// Where the payload of a record is, wherever that is.
absl::StatusOr<ShmReader::Lent> ShmReader::Locate(const Record& record) const {
  const RecordHead& head = record.head;
  const ShmMemory& memory = slots_->memory();
  if (head.slot == kNoSlot)
    return Lent{nullptr, record.begin + kLine + Padded(head.header)};
  if (head.slot < memory.shape.blocks) {
    return Lent{nullptr, memory.bytes + memory.shape.ring +
                             head.slot * memory.shape.block};
  }
  if (!find_) return Broken("it lends what nobody can borrow");
  return find_(head.slab, head.offset, head.payload);
}

absl::Status ShmReader::TakePayload(const Record& record) {
  const RecordHead& head = record.head;
  const ShmShape& shape = slots_->memory().shape;
  PARAPET_ASSIGN_OR_RETURN(const Lent lent, Locate(record));
  const bool in_line = head.slot == kNoSlot;
  if (!in_line && !slots_->Keep(head.slot)) return Broken("a slot twice");
  taken_ += head.payload;
  const bool is_lent = !in_line && head.slot >= shape.blocks;
  if (is_lent || (!in_line && head.payload == total_ &&
                  slots_->kept_blocks() <= shape.blocks / 2)) {
    const std::shared_ptr<const void> owner(
        lent.data, [slots = slots_, slot = head.slot, mapping = lent.owner](
                       const void*) { slots->Return(slot); });
    message_->payload = Payload::ThatMayChange(owner, lent.data, total_);
    return absl::OkStatus();
  }
  if (parts_ == nullptr) {
    parts_ = std::make_shared<std::string>();
    parts_->reserve(total_);
  }
  parts_->append(reinterpret_cast<const char*>(lent.data), head.payload);
  if (!in_line) slots_->Return(head.slot);
  return absl::OkStatus();
}

absl::Status ShmReader::Take(const Record& record) {
  const RecordHead& head = record.head;
  if ((head.kind == RecordHead::kMessage) == message_.has_value())
    return Broken("a message within another, or a part of none");
  if (head.kind == RecordHead::kMessage) {
    if (head.header > limits_.max_header || head.total > limits_.max_payload) {
      return absl::InvalidArgumentError(
          absl::StrCat("a message of ", head.header, " + ", head.total,
                       " bytes is over the limits"));
    }
    const char* header = reinterpret_cast<const char*>(record.begin + kLine);
    message_ = Message{std::string(header, head.header), {}};
    total_ = head.total;
    taken_ = 0;
  }
  if (head.payload > total_ - taken_ || (head.payload == 0 && total_ > 0))
    return Broken("parts that do not make the whole");
  return total_ == 0 ? absl::OkStatus() : TakePayload(record);
}

absl::StatusOr<std::optional<ShmReader::Message>> ShmReader::Read() {
  for (int records = 0; records < kMostRecords && HasMore(); ++records) {
    PARAPET_ASSIGN_OR_RETURN(const Record record, ReadRecord());
    const bool skip = record.head.kind == RecordHead::kSkip;
    if (!skip) PARAPET_RETURN_IF_ERROR(Take(record));
    read_ += record.bytes;
    slots_->memory().counters->freed.store(read_, std::memory_order_seq_cst);
    slots_->Ring();
    if (skip || !IsWhole()) continue;
    if (parts_ != nullptr) {
      message_->payload = Payload(parts_, parts_->data(), parts_->size());
      parts_ = nullptr;
    }
    return std::exchange(message_, std::nullopt);
  }
  return std::optional<Message>();
}

}  // namespace parapet::net
