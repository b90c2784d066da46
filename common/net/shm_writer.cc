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

ShmWriter::ShmWriter(ShmMemory memory)
    : memory_(std::move(memory)),
      in_use_(memory_.shape.slots()),
      lent_(memory_.shape.slots()) {
  for (size_t slot = memory_.shape.slots(); slot-- > 0;) {
    std::vector<uint32_t>& of_its_kind =
        slot < memory_.shape.blocks ? blocks_ : loans_;
    of_its_kind.push_back(static_cast<uint32_t>(slot));
  }
}

absl::StatusOr<size_t> ShmWriter::FreeBytes() {
  // In one order with wants_room, as the reader's store of it is.
  const uint64_t freed =
      memory_.counters->freed.load(std::memory_order_seq_cst);
  if (freed < freed_ || freed > written_)
    return Broken("it freed what it was never sent");
  freed_ = freed;
  return memory_.shape.ring - static_cast<size_t>(written_ - freed_);
}

void ShmWriter::Publish(size_t bytes) {
  written_ += bytes;
  memory_.counters->written.store(written_, std::memory_order_seq_cst);
}

absl::StatusOr<std::byte*> ShmWriter::Room(size_t bytes) {
  PARAPET_ASSIGN_OR_RETURN(const size_t free, FreeBytes());
  const size_t place = static_cast<size_t>(written_) & (memory_.shape.ring - 1);
  const size_t to_end = memory_.shape.ring - place;
  if (to_end >= bytes) return free >= bytes ? memory_.bytes + place : nullptr;
  if (free < to_end + bytes) return nullptr;
  const RecordHead skip = {.kind = RecordHead::kSkip};
  std::memcpy(memory_.bytes + place, &skip, sizeof(skip));
  Publish(to_end);
  return memory_.bytes;
}

absl::Status ShmWriter::TakeReturned() {
  const uint64_t returned =
      memory_.counters->returned.load(std::memory_order_seq_cst);
  const size_t slots = memory_.shape.slots();
  if (returned < returned_ || returned - returned_ > slots)
    return Broken("it returned more than it was given");
  for (; returned_ < returned; ++returned_) {
    const uint32_t slot = memory_.counters->slots[returned_ % slots].load(
        std::memory_order_relaxed);
    if (slot >= slots || !in_use_[slot])
      return Broken("it returned what it was not given");
    in_use_[slot] = false;
    lent_[slot] = {};
    (slot < memory_.shape.blocks ? blocks_ : loans_).push_back(slot);
  }
  return absl::OkStatus();
}

bool ShmWriter::Lends() {
  return TakeReturned().ok() &&
         std::any_of(lent_.begin(), lent_.end(),
                     [](const Payload& payload) { return !payload.empty(); });
}

std::optional<uint32_t> ShmWriter::TakeSlot(std::vector<uint32_t>* slots) {
  if (slots->empty()) return std::nullopt;
  const uint32_t slot = slots->back();
  slots->pop_back();
  in_use_[slot] = true;
  return slot;
}

// Finds a place for a payload, or for as much of it as a block takes, and puts
// it there. False: there is none.
absl::StatusOr<bool> ShmWriter::Place(const Payload& payload, size_t done,
                                      const std::optional<Loan>& loan,
                                      RecordHead* head) {
  PARAPET_RETURN_IF_ERROR(TakeReturned());
  std::optional<uint32_t> slot;
  if (loan && done == 0) slot = TakeSlot(&loans_);
  if (slot) {
    head->slot = *slot;
    head->slab = loan->slab;
    head->offset = loan->offset;
    lent_[*slot] = payload;
    return true;
  }
  slot = TakeSlot(&blocks_);
  if (!slot) return false;
  head->slot = *slot;
  head->payload = std::min<uint64_t>(head->payload, memory_.shape.block);
  std::memcpy(memory_.bytes + memory_.shape.ring + *slot * memory_.shape.block,
              payload.data() + done, head->payload);
  return true;
}

absl::StatusOr<bool> ShmWriter::WritePart(absl::string_view header,
                                          const Payload& payload,
                                          Progress* progress,
                                          const std::optional<Loan>& loan) {
  const size_t rest = payload.size() - progress->done;
  const bool in_line = rest <= kInline;
  RecordHead head = {
      .kind = progress->begun ? RecordHead::kPart : RecordHead::kMessage,
      .header = progress->begun ? 0 : static_cast<uint32_t>(header.size()),
      .payload = rest,
      .total = payload.size()};
  const size_t bytes =
      kLine + Padded(head.header) + (in_line ? Padded(rest) : 0);
  PARAPET_ASSIGN_OR_RETURN(std::byte* const to, Room(bytes));
  if (to == nullptr) return false;
  if (!in_line) {
    PARAPET_ASSIGN_OR_RETURN(const bool placed,
                             Place(payload, progress->done, loan, &head));
    if (!placed) return false;
  } else if (rest > 0) {
    std::memcpy(to + kLine + Padded(head.header),
                payload.data() + progress->done, rest);
  }
  std::memcpy(to, &head, sizeof(head));
  std::memcpy(to + kLine, header.data(), head.header);
  progress->begun = true;
  progress->done += head.payload;
  Publish(bytes);
  return true;
}

absl::StatusOr<bool> ShmWriter::Write(absl::string_view header,
                                      const Payload& payload,
                                      Progress* progress,
                                      const std::optional<Loan>& loan) {
  while (!progress->begun || progress->done < payload.size()) {
    PARAPET_ASSIGN_OR_RETURN(bool written,
                             WritePart(header, payload, progress, loan));
    if (written) continue;
    // Said before looking again: whoever frees afterwards sees it.
    memory_.counters->wants_room.store(1, std::memory_order_seq_cst);
    PARAPET_ASSIGN_OR_RETURN(written,
                             WritePart(header, payload, progress, loan));
    if (!written) return false;
    memory_.counters->wants_room.store(0, std::memory_order_relaxed);
  }
  return true;
}

}  // namespace parapet::net
