#include <algorithm>
#include <cstring>
#include <utility>

#include "common/net/shm_record.h"
#include "common/net/shm_ring.h"
#include "common/status_macros.h"

namespace parapet::net {

using shm_internal::Broken;
using shm_internal::kLine;
using shm_internal::kNoBlock;
using shm_internal::Padded;
using shm_internal::RecordHead;

// A copy of a record's head, checked, and where the rest of it is.
struct ShmReader::Record {
  RecordHead head;
  const std::byte* begin = nullptr;
  size_t bytes = 0;  // in the ring
};

// ---- Blocks -----------------------------------------------------------------

ShmReader::Blocks::Blocks(ShmMemory memory, std::function<void()> ring_bell)
    : memory_(std::move(memory)),
      ring_bell_(std::move(ring_bell)),
      kept_(memory_.shape.blocks) {}

bool ShmReader::Blocks::Keep(uint32_t block) {
  MutexLock lock(&mutex_);
  if (kept_[block]) return false;
  kept_[block] = true;
  ++count_;
  return true;
}

void ShmReader::Blocks::Return(uint32_t block) {
  {
    MutexLock lock(&mutex_);
    kept_[block] = false;
    --count_;
    memory_.counters->blocks[returned_ % kept_.size()].store(
        block, std::memory_order_relaxed);
    memory_.counters->returned.store(++returned_, std::memory_order_seq_cst);
  }
  Ring();
}

size_t ShmReader::Blocks::kept() {
  MutexLock lock(&mutex_);
  return count_;
}

void ShmReader::Blocks::Ring() {
  if (memory_.counters->wants_room.load(std::memory_order_seq_cst) != 0 &&
      memory_.counters->wants_room.exchange(0) != 0)
    ring_bell_();
}

// ---- Records ----------------------------------------------------------------

ShmReader::ShmReader(ShmMemory memory, const Limits& limits,
                     std::function<void()> ring_bell)
    : limits_(limits),
      blocks_(
          std::make_shared<Blocks>(std::move(memory), std::move(ring_bell))) {}

bool ShmReader::HasMore() const {
  return blocks_->memory().counters->written.load(std::memory_order_seq_cst) !=
         read_;
}

absl::StatusOr<ShmReader::Record> ShmReader::ReadRecord() {
  const ShmMemory& memory = blocks_->memory();
  const size_t ring = memory.shape.ring;
  const uint64_t there =
      memory.counters->written.load(std::memory_order_acquire) - read_;
  if (there > ring || there % kLine != 0)
    return Broken("more was written than there is room for");
  const size_t place = static_cast<size_t>(read_) & (ring - 1);
  const size_t most = std::min<size_t>(there, ring - place);
  Record record{{}, memory.bytes + place, 0};
  std::memcpy(&record.head, record.begin, sizeof(record.head));
  const RecordHead& head = record.head;
  if (head.kind == RecordHead::kSkip) {
    record.bytes = ring - place;
    return most == record.bytes ? absl::StatusOr<Record>(record)
                                : Broken("a skip past the end");
  }
  const bool in_line = head.block == kNoBlock;
  if (head.kind != RecordHead::kMessage && head.kind != RecordHead::kPart)
    return Broken("a record of no known kind");
  if (head.header > most || (in_line && head.payload > ShmWriter::kInline) ||
      (record.bytes = shm_internal::RecordBytes(head)) > most)
    return Broken("a record past its end");
  if (!in_line && (head.block >= memory.shape.blocks ||
                   head.payload > memory.shape.block || head.payload == 0))
    return Broken("a block that is not there");
  return record;
}

absl::Status ShmReader::TakePayload(const Record& record) {
  const RecordHead& head = record.head;
  const ShmMemory& memory = blocks_->memory();
  const bool in_line = head.block == kNoBlock;
  const std::byte* data = in_line ? record.begin + kLine + Padded(head.header)
                                  : memory.bytes + memory.shape.ring +
                                        head.block * memory.shape.block;
  if (!in_line && !blocks_->Keep(head.block)) return Broken("a block twice");
  taken_ += head.payload;
  if (!in_line && head.payload == total_ &&
      blocks_->kept() <= memory.shape.blocks / 2) {
    const std::shared_ptr<Blocks> blocks = blocks_;
    const uint32_t block = head.block;
    const std::shared_ptr<const void> owner(
        data, [blocks, block](const void*) { blocks->Return(block); });
    message_->payload = Payload(owner, data, total_);
    return absl::OkStatus();
  }
  if (parts_ == nullptr) {
    parts_ = std::make_shared<std::string>();
    parts_->reserve(total_);
  }
  parts_->append(reinterpret_cast<const char*>(data), head.payload);
  if (!in_line) blocks_->Return(head.block);
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
  while (HasMore()) {
    PARAPET_ASSIGN_OR_RETURN(const Record record, ReadRecord());
    const bool skip = record.head.kind == RecordHead::kSkip;
    if (!skip) PARAPET_RETURN_IF_ERROR(Take(record));
    read_ += record.bytes;
    blocks_->memory().counters->freed.store(read_, std::memory_order_seq_cst);
    blocks_->Ring();
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
